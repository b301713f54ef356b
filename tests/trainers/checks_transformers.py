"""Models of transformers, with random weights, trained on pasted batches; run by `test_trainers`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tiny_oneformer import CLASS_NAMES, MAX_LENGTH, NUM_TEXT, oneformer, tokenizer
from torch.utils.data import DataLoader, Dataset, Subset
from trainer_data import NUM_CLASSES, SIZE, dataset_of, expect_flat_memory

from example_runs import expect_example_runs
from samples import EVERY_IMAGE
from segpaste import BatchCopyPaste
from segpaste.integrations.huggingface import (
    CopyPasteCollator,
    Inputs,
    to_detr,
    to_mask_labels,
    to_oneformer,
    with_copy_paste,
)
from segpaste.types import BatchedDenseSample, DenseSample, PaddedBatchedDenseSample, select_instances
from segpaste.viz import show

COLOURS = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
PLAIN = {"mean": [0.0] * 3, "std": [1.0] * 3}
QUERIES = {"num_queries": 20, "num_labels": NUM_CLASSES}
FEED_FORWARD = {"d_model": 32, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
RATES = {"mask2former": 2e-2, "eomt": 1e-2, "detr": 8e-3, "rt_detr": 5e-3}
"""At which four images are learned in few steps."""
MAX_INSTANCES = 24
NUM_POINTS = 1024
"""Points of a mask at which the losses are taken; the default has more than these images have pixels."""
LEARNT = 0.65
"""Share of the first loss at which images count as learned."""
MOST_STEPS = 600


def resnet(kind: type[Any], first: int, **options: Any) -> Any:
    stages = [f"stage{n}" for n in range(first, 5)]
    return kind(embedding_size=8, hidden_sizes=[8, 16, 32, 32], depths=[1] * 4, out_features=stages, **options)


def mask2former() -> torch.nn.Module:
    swin = transformers.SwinConfig(
        image_size=SIZE,
        embed_dim=12,
        depths=[1] * 4,
        num_heads=[1] * 4,
        window_size=4,
        out_features=[f"stage{n}" for n in range(1, 5)],
    )
    config = transformers.Mask2FormerConfig(
        backbone_config=swin,
        hidden_size=32,
        mask_feature_size=32,
        feature_size=32,
        encoder_layers=1,
        decoder_layers=2,
        dim_feedforward=32,
        encoder_feedforward_dim=32,
        num_attention_heads=2,
        train_num_points=NUM_POINTS,
        **QUERIES,
    )
    return transformers.Mask2FormerForUniversalSegmentation(config)


def eomt() -> torch.nn.Module:
    config = transformers.EomtConfig(
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        patch_size=16,
        image_size=SIZE,
        num_queries=20,
        num_blocks=1,
        num_labels=NUM_CLASSES,
        train_num_points=NUM_POINTS,
    )
    return transformers.EomtForUniversalSegmentation(config)


def detr() -> torch.nn.Module:
    config = transformers.DetrConfig(
        backbone_config=resnet(transformers.ResNetConfig, 1),
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        dropout=0.0,
        **FEED_FORWARD,
        **QUERIES,
    )
    return transformers.DetrForSegmentation(config)


def rt_detr() -> torch.nn.Module:
    config = transformers.RTDetrConfig(
        backbone_config=resnet(transformers.RTDetrResNetConfig, 2, layer_type="basic"),
        encoder_in_channels=[16, 32, 32],
        decoder_in_channels=[32, 32, 32],
        encoder_hidden_dim=32,
        decoder_layers=2,
        num_denoising=10,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        num_queries=30,
        num_labels=NUM_CLASSES,
        **FEED_FORWARD,
    )
    return transformers.RTDetrForObjectDetection(config)


TEXTS = {"class_names": CLASS_NAMES, "tokenizer": tokenizer(), "num_text": NUM_TEXT, "max_length": MAX_LENGTH}


def oneformer_inputs(batch: PaddedBatchedDenseSample) -> Inputs:
    tasks = ["instance"] if batch.panoptic_maps is None else ["panoptic", "semantic", "instance"]
    return to_oneformer(batch, **COLOURS, **TEXTS, tasks=tasks)


MODELS: dict[str, tuple[Callable[[], torch.nn.Module], Callable[..., Inputs]]] = {
    "mask2former": (mask2former, partial(to_mask_labels, **COLOURS)),
    "eomt": (eomt, partial(to_mask_labels, **COLOURS, with_pixel_mask=False)),
    "oneformer": (oneformer, oneformer_inputs),
    "detr": (detr, partial(to_detr, **COLOURS)),
    "rt_detr": (rt_detr, partial(to_detr, **PLAIN, masks=False)),
}


def collator_of(name: str, **options: Any) -> CopyPasteCollator:
    return CopyPasteCollator(BatchCopyPaste(EVERY_IMAGE), MAX_INSTANCES, MODELS[name][1], **options)


def train(name: str, dataset: Dataset[DenseSample], num_steps: int, num_workers: int = 0) -> list[float]:
    """Return the losses of some steps on batches of four."""
    torch.manual_seed(0)
    model = MODELS[name][0]()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    loader = DataLoader(dataset, 4, shuffle=True, collate_fn=collator_of(name), num_workers=num_workers)
    losses: list[float] = []

    def step() -> None:
        nonlocal batches
        try:
            inputs = next(batches)
        except StopIteration:
            batches = iter(loader)
            inputs = next(batches)
        loss = model(**inputs).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())

    batches = iter(loader)
    expect_flat_memory(step, num_steps)
    return losses


DATA = ("scenes", "tiny_coco", "coco128_seg")
RUNS = [(name, DATA[m % len(DATA)], m % 2 * 2) for m, name in enumerate(MODELS)]
"""Each model on a dataset; the inputs that models of one kind share are compared with the processors' elsewhere."""


@pytest.mark.parametrize(("name", "data", "num_workers"), RUNS)
def test_steps(name: str, data: str, num_workers: int) -> None:
    """Memory stays flat over twenty steps of one model; all models have the same collator."""
    losses = train(name, dataset_of(data), 20 if name == "mask2former" else 6, num_workers)
    assert torch.tensor(losses).isfinite().all()


@pytest.mark.parametrize(("name", "num_workers"), [(name, (m + 1) % 2 * 2) for m, name in enumerate(MODELS)])
def test_the_same_seed_gives_the_same_losses(name: str, num_workers: int) -> None:
    dataset = dataset_of("scenes")
    assert train(name, dataset, 4, num_workers) == train(name, dataset, 4, num_workers)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "rt_detr"])
def test_four_pasted_images_are_learned(name: str) -> None:
    """RT-DETR is left out: it has the targets of DETR, and takes a minute to learn them."""
    torch.manual_seed(0)
    model = MODELS[name][0]()
    inputs = collator_of(name)([dataset_of("scenes")[i] for i in range(4)])
    optimizer = torch.optim.AdamW(model.parameters(), RATES.get(name, 2e-3))
    losses: list[float] = []
    while len(losses) < MOST_STEPS and (not losses or losses[-1] >= LEARNT * losses[0]):
        loss = model(**inputs).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert torch.tensor(losses).isfinite().all()
    assert losses[-1] < LEARNT * losses[0], losses[:: len(losses) // 10]


@pytest.mark.parametrize("name", MODELS)
def test_images_without_objects_are_accepted(name: str) -> None:
    """In a batch with others and in a batch of their own; the loss is finite and has gradients."""
    dataset = dataset_of("scenes")
    empty = [select_instances(dataset[i], torch.zeros(0, dtype=torch.int64)) for i in range(2)]
    model = MODELS[name][0]()
    for samples in ([dataset[0], *empty], empty):
        loss = model(**collator_of(name)(samples)).loss
        loss.backward()
        assert loss.isfinite()


@pytest.mark.parametrize(("name", "num_workers"), [("scenes", 2), ("tiny_coco", 0)])
def test_the_trainer_of_transformers(name: str, num_workers: int, tmp_path: Any) -> None:
    def losses(picture: Path | None = None) -> list[float]:
        torch.manual_seed(0)
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path),
            per_device_train_batch_size=4,
            max_steps=8,
            logging_steps=1,
            report_to=[],
            remove_unused_columns=False,
            save_strategy="no",
            use_cpu=True,
            disable_tqdm=True,
            dataloader_num_workers=num_workers,
            seed=3,
        )
        data = Subset(dataset_of(name), range(12))
        collator = collator_of("eomt", first_batch=picture)
        trainer = transformers.Trainer(eomt(), arguments, train_dataset=data, data_collator=collator)
        trainer.train()
        return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]

    first = losses()
    assert len(first) == 8
    assert torch.tensor(first).isfinite().all()
    if name != "scenes":
        return
    assert losses(tmp_path / "copy_paste_batch.png") == first
    assert (tmp_path / "copy_paste_batch.png").stat().st_size


class Counts(torch.nn.Module):
    """Keeps the batches that it is evaluated with."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 1, 1)
        self.evaluated: list[Inputs] = []

    def forward(self, pixel_values: torch.Tensor, pixel_mask: torch.Tensor, labels: Any) -> dict[str, torch.Tensor]:
        if not self.training:
            self.evaluated.append({"pixel_values": pixel_values, "pixel_mask": pixel_mask, "labels": labels})
        return {"loss": self.layer(pixel_values).square().mean()}


def test_the_trainer_evaluates_without_pastes(tmp_path: Path) -> None:
    """With workers, and before the first step of training, too; the picture is of a batch to train on."""
    model, data = Counts(), Subset(dataset_of("scenes"), range(8))
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        max_steps=2,
        eval_strategy="steps",
        eval_steps=1,
        eval_on_start=True,
        prediction_loss_only=True,
        report_to=[],
        remove_unused_columns=False,
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        dataloader_num_workers=1,
    )
    convert = partial(to_detr, **COLOURS)
    collator = CopyPasteCollator(BatchCopyPaste(EVERY_IMAGE), MAX_INSTANCES, convert)
    trainer_cls = with_copy_paste(transformers.Trainer)
    trainer = trainer_cls(model, arguments, train_dataset=data, eval_dataset=data, data_collator=collator)
    trainer.train()
    assert len(model.evaluated) == 3 * 2
    for n, inputs in enumerate(model.evaluated):
        samples = [data[4 * (n % 2) + i] for i in range(4)]
        plain = convert(BatchedDenseSample.from_samples(samples).to_padded(MAX_INSTANCES))
        assert torch.equal(inputs["pixel_values"], plain["pixel_values"])
        for found, expected in zip(inputs["labels"], plain["labels"], strict=True):
            assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert [path.name for path in tmp_path.iterdir()] == ["copy_paste_batch.jpg"]


def test_inputs_of_the_processor_are_shown_as_ours_are() -> None:
    samples = [dataset_of("scenes")[i] for i in range(2)]
    bare = {"semantic_map": None, "panoptic_map": None}
    batch = BatchedDenseSample.from_samples([replace(s, **bare) for s in samples]).to_padded(MAX_INSTANCES)
    numbers = [(s.instance_masks * torch.arange(1, s.num_instances + 1)[:, None, None]).amax(0) for s in samples]
    maps = [torch.where(number > 0, number, 255).numpy() for number in numbers]
    tables = [dict(enumerate(s.labels.tolist(), start=1)) for s in samples]
    processor = transformers.Mask2FormerImageProcessor(do_resize=False, ignore_index=255)
    images = [torch.as_tensor(s.image) for s in samples]
    theirs = processor(images, maps, instance_id_to_semantic_id=tables, return_tensors="pt")
    pages = [
        np.asarray(show(inputs, mean=processor.image_mean, std=processor.image_std)).astype(int)
        for inputs in (theirs, to_mask_labels(batch, mean=processor.image_mean, std=processor.image_std))
    ]
    assert np.abs(pages[0] - pages[1]).max() <= 1


def test_the_example_runs(tmp_path: Path) -> None:
    expect_example_runs("12_hugging_face_mask2former", tmp_path)
