"""Batches as transformers' models take them; `tests/trainers` runs the models."""

from __future__ import annotations

import pickle
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from samples import EVERY_IMAGE, make_batch, make_samples
from segpaste import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.augmentation import PlacementConfig, SourceConfig
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.integrations.huggingface import CopyPasteCollator, to_detr, to_mask_labels, to_oneformer, with_copy_paste
from segpaste.types import IGNORE_INDEX, DenseSample, Modality, PaddedBatchedDenseSample
from segpaste.viz import show

COLOURS = {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4]}


def test_mask_labels_of_instances() -> None:
    batch = make_batch(3, num_instances=(3, 0, 2), modalities=["instance"], padding=(4, 3))
    inputs = to_mask_labels(batch, **COLOURS, label_map=1)
    assert batch.instance_masks is not None
    assert batch.padding_mask is not None
    assert torch.equal(inputs["pixel_mask"], (~batch.padding_mask[:, 0]).long())
    for b, (masks, labels) in enumerate(zip(inputs["mask_labels"], inputs["class_labels"], strict=True)):
        rows = batch.instance_valid[b]
        assert torch.equal(masks, batch.instance_masks[b, rows].float())
        assert torch.equal(labels, batch.labels[b, rows] + 1)
    assert inputs["mask_labels"][1].shape == (0, *batch.canvas_size)
    assert inputs["pixel_values"].dtype == torch.float32


def test_panoptic_segments_cover_every_labelled_pixel_once() -> None:
    batch = make_batch(3, padding=(4, 3))
    inputs = to_mask_labels(batch, **COLOURS)
    assert batch.semantic_maps is not None
    assert batch.padding_mask is not None
    for b, (masks, labels) in enumerate(zip(inputs["mask_labels"], inputs["class_labels"], strict=True)):
        labelled = (batch.semantic_maps[b] != IGNORE_INDEX) & ~batch.padding_mask[b, 0]
        assert torch.equal(masks.sum(0), labelled.float())
        seen = (masks * labels[:, None, None]).sum(0).long()
        assert torch.equal(seen[labelled], batch.semantic_maps[b][labelled])


def test_padding_is_in_no_segment() -> None:
    """This also holds where the maps give it a class."""
    batch = make_batch(2, modalities=["semantic"], padding=(4, 3))
    assert batch.semantic_maps is not None
    assert batch.padding_mask is not None
    batch = batch.derived(semantic_maps=batch.semantic_maps.masked_fill(batch.padding_mask[:, 0], 1))
    for padding, masks in zip(batch.padding_mask, to_mask_labels(batch, **COLOURS)["mask_labels"], strict=True):
        assert len(masks)
        assert not (masks.bool() & padding).any()


def test_crowds_are_in_no_segment() -> None:
    batch = make_batch(2, modalities=["semantic"], crowd=True)
    assert batch.crowd_mask is not None
    assert batch.crowd_mask.any()
    for crowd, masks in zip(batch.crowd_mask, to_mask_labels(batch, **COLOURS)["mask_labels"], strict=True):
        assert not (masks.bool() & crowd).any()


def test_semantic_segments() -> None:
    batch = make_batch(2, modalities=["semantic"])
    inputs = to_mask_labels(batch, **COLOURS, with_pixel_mask=False)
    assert "pixel_mask" not in inputs
    assert batch.semantic_maps is not None
    for classes, masks, labels in zip(batch.semantic_maps, inputs["mask_labels"], inputs["class_labels"], strict=True):
        assert labels.tolist() == sorted(set(classes.flatten().tolist()) - {IGNORE_INDEX})
        assert all(torch.equal(mask.bool(), classes == label) for mask, label in zip(masks, labels, strict=True))


def characters(lines: list[str], *, max_length: int, **options: object) -> dict[str, torch.Tensor]:
    """A tokenizer that gives the code of each character; 7 where the attention mask is 0."""
    assert options == {"padding": "max_length", "truncation": True, "return_tensors": "pt"}
    codes = torch.full((len(lines), max_length), 7)
    mask = torch.zeros_like(codes)
    for row, line in enumerate(lines):
        codes[row, : len(line)] = torch.tensor([ord(letter) for letter in line])
        mask[row, : len(line)] = 1
    return {"input_ids": codes, "attention_mask": mask}


def spelled(tokens: torch.Tensor) -> list[str]:
    return ["".join(map(chr, row)).rstrip("\0") for row in tokens.tolist()]


NAMES = [f"class{n}" for n in range(20)]
TEXTS = {"class_names": NAMES, "tokenizer": characters, "num_text": 8, "max_length": 30}


@pytest.mark.parametrize("task", ["panoptic", "semantic", "instance"])
def test_texts_of_oneformer_name_the_segments_of_the_task(task: str) -> None:
    options = {"num_instances": (3, 0, 2), "padding": (4, 3)}
    inputs = to_oneformer(make_batch(3, **options), **COLOURS, **TEXTS, tasks=[task], label_map=10)
    alone = {} if task == "panoptic" else {"modalities": [task]}  # segments are as in a batch that has nothing else
    expected = to_mask_labels(make_batch(3, **options, **alone), **COLOURS, label_map=10)
    for name, values in expected.items():
        assert all(torch.equal(one, other) for one, other in zip(inputs[name], values, strict=True)), name
    assert spelled(inputs["task_inputs"]) == [f"the task is {task}"] * 3
    rest = f"{'an' if task == 'instance' else 'a'} {task} photo"
    for labels, texts in zip(inputs["class_labels"], inputs["text_inputs"], strict=True):
        names = [f"a photo with a {NAMES[label - 10]}" for label in sorted(labels.tolist())]
        assert spelled(texts) == [*names, *[rest] * 8][:8]


def test_the_inputs_of_oneformer_are_shown() -> None:
    """As those of a model that asks for the same segments without texts."""
    batch = make_batch(2, num_instances=3, modalities=["instance"])
    pages = [
        np.asarray(show(inputs, **COLOURS))
        for inputs in (to_oneformer(batch, **COLOURS, **TEXTS, tasks=["instance"]), to_mask_labels(batch, **COLOURS))
    ]
    assert np.array_equal(*pages)
    assert len(np.unique(pages[0])) > 2


def test_each_image_draws_a_task_from_torchs_generator() -> None:
    batch = make_batch(8, padding=(4, 3))
    torch.manual_seed(0)
    drawn = [spelled(to_oneformer(batch, **COLOURS, **TEXTS)["task_inputs"]) for _ in range(2)]
    assert len(set(drawn[0])) == 3
    assert drawn[0] != drawn[1]
    torch.manual_seed(0)
    assert spelled(to_oneformer(batch, **COLOURS, **TEXTS)["task_inputs"]) == drawn[0]


def test_texts_that_find_no_place_are_left_out() -> None:
    inputs = to_oneformer(make_batch(1, num_instances=3), **COLOURS, **{**TEXTS, "num_text": 2}, tasks=["instance"])
    assert inputs["text_inputs"].shape == (1, 2, 30)
    assert len(inputs["class_labels"][0]) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": "instance"}, r"tasks: expected a list of panoptic, .* such as \['instance'\], got 'instance'"),
        ({"tasks": ["depth"]}, r"tasks: expected a list of .*, got \['depth'\]"),
        ({"tasks": []}, r"tasks: expected a list of .*, got \[\]"),
        ({}, r"without labels for panoptic, semantic; pass tasks=\['instance'\]"),
        (
            {"tasks": ["instance"], "class_names": NAMES[:1]},
            "class_names: expected a name for every label, got 1 names",
        ),
        ({"tasks": ["instance"], "num_text": 0}, "num_text: expected at least 1, got 0"),
    ],
)
def test_what_oneformer_cannot_train_on_is_refused(options: dict[str, object], message: str) -> None:
    batch = make_batch(1, modalities=["instance"])
    with pytest.raises(ValueError, match=message):
        to_oneformer(batch, **COLOURS, **{**TEXTS, **options})


def test_detr_labels() -> None:
    batch = make_batch(2, size=(17, 11), num_instances=(3, 0), padding=(4, 3))
    inputs = to_detr(batch, **COLOURS, label_map={0: 1, 1: 3, 2: 5, 3: 7, 4: 9})
    assert batch.instance_masks is not None
    first, second = inputs["labels"]
    x1, y1, x2, y2 = batch.boxes[0, :3].unbind(1)
    expected = torch.stack([(x1 + x2) / 22, (y1 + y2) / 34, (x2 - x1) / 11, (y2 - y1) / 17], 1)
    assert torch.allclose(first["boxes"], expected)
    assert first["class_labels"].tolist() == (batch.labels[0, :3] * 2 + 1).tolist()
    assert first["area"].tolist() == batch.instance_masks[0, :3].sum((1, 2)).tolist()
    assert first["size"].tolist() == [17, 11]
    assert first["orig_size"].tolist() == [13, 8]
    assert torch.equal(first["masks"].bool(), batch.instance_masks[0, :3])
    assert second["boxes"].shape == (0, 4)
    assert "masks" not in to_detr(batch, **COLOURS, masks=False)["labels"][0]


def test_what_the_batch_lacks_is_said() -> None:
    with pytest.raises(ValueError, match="instance masks, or with semantic maps alone, got image"):
        to_mask_labels(make_batch(1, modalities=[]), **COLOURS)
    with pytest.raises(ValueError, match="pass masks=False"):
        to_detr(make_batch(1, modalities=[]), **COLOURS)


def test_the_collator_prints_what_to_expect(capsys: pytest.CaptureFixture[str]) -> None:
    dataset = SceneDataset(4, SceneConfig(height=32, width=32), modalities=[Modality.INSTANCE])
    config = BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=SourceConfig(kind="bank"))
    collator = CopyPasteCollator(
        BatchCopyPaste(config, source_pool=dataset, balance="class_uniform"), 24, partial(to_detr, **COLOURS)
    )
    assert capsys.readouterr().out.startswith("CopyPasteCollator: pastes expected in 1000 images\nclass")
    torch.manual_seed(0)
    pasted = sum(len(collator([dataset[i]])["labels"][0]["class_labels"]) - dataset[i].num_instances for i in range(4))
    assert pasted > 0
    CopyPasteCollator(BatchCopyPaste(config, source_pool=dataset), 24, partial(to_detr, **COLOURS))
    assert capsys.readouterr().out == ""


def test_a_compiled_augmentation_pastes_from_its_pool() -> None:
    """As it does uncompiled: the crops are read outside of the graph."""
    dataset = SceneDataset(4, SceneConfig(height=32, width=32), modalities=[Modality.INSTANCE])
    augment = BatchCopyPaste(
        BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=SourceConfig(kind="bank")), source_pool=dataset
    ).eval()  # a collator pastes in any mode
    found = []
    for module in (augment, torch.compile(augment, fullgraph=True, backend="eager")):
        torch.manual_seed(1)
        collator = CopyPasteCollator(module, 24, partial(to_detr, **COLOURS))
        found.append(collator([dataset[i] for i in range(3)]))
    num = [sum(len(target["class_labels"]) for target in inputs["labels"]) for inputs in found]
    assert num[0] == num[1] > sum(dataset[i].num_instances for i in range(3))
    assert torch.equal(found[0]["pixel_values"], found[1]["pixel_values"])


def test_ranks_that_are_seeded_alike_paste_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[int]] = []

    def augment(batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
        assert batch.sample_seeds is not None
        seen.append(batch.sample_seeds.tolist())
        return batch

    collator = CopyPasteCollator(augment, 4, partial(to_detr, **COLOURS))
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("0", "1", "1", "-1"):
        monkeypatch.setenv("RANK", rank)
        torch.manual_seed(3)
        for _ in range(2):
            collator(make_samples(3, modalities=["instance"]))
    first, second, again, alone = (seen[n : n + 2] for n in range(0, 8, 2))
    assert second == again
    assert first == alone
    assert len({seed for batch in (*first, *second) for seed in batch}) == 12


def test_the_collator_says_that_nothing_fades() -> None:
    augment = BatchCopyPaste(BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=1.0, fade_last=0.5)))
    with pytest.warns(UserWarning, match=r"expected placement\.fade_last=0, since a collator does not know"):
        CopyPasteCollator(torch.compile(augment), 4, partial(to_detr, **COLOURS))


def test_the_collator_pads_pastes_and_converts() -> None:
    seen: list[PaddedBatchedDenseSample] = []

    def augment(batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
        seen.append(batch)
        return BatchCopyPaste(EVERY_IMAGE)(batch)

    collator = CopyPasteCollator(augment, 2, partial(to_detr, **COLOURS))
    with pytest.warns(UserWarning, match="more objects than max_instances=2 slots"):
        inputs = collator(make_samples(3, num_instances=(3, 1, 2), modalities=["instance"]))
    assert seen[0].max_instances == 2
    assert seen[0].instance_valid.sum(1).tolist() == [2, 1, 2]  # the largest are kept
    assert len(inputs["labels"]) == 3
    with pytest.raises(ValueError, match="max_instances: expected at least 0, got -1"):
        CopyPasteCollator(augment, -1, partial(to_detr, **COLOURS))


def test_the_collator_without_paste_gives_the_samples_as_they_are() -> None:
    """They keep all objects, beyond ``max_instances``, and follow the config's options of the output."""
    samples = make_samples(3, size=(17, 11), num_instances=(3, 0, 2))
    placement = PlacementConfig(paste_prob=1.0, pad_to_multiple=8)
    augment = BatchCopyPaste(BatchCopyPasteConfig(emit_panoptic=False, placement=placement))
    for module in (augment, torch.compile(augment)):
        plain = CopyPasteCollator(module, 1, partial(to_mask_labels, **COLOURS)).without_paste()
        inputs = pickle.loads(pickle.dumps(plain))(samples)
        assert inputs["pixel_values"].shape[-2:] == (24, 16)
        assert inputs["pixel_mask"].sum((1, 2)).tolist() == [17 * 11] * 3
        for sample, masks, labels in zip(samples, inputs["mask_labels"], inputs["class_labels"], strict=True):
            assert torch.equal(masks[:, :17, :11].bool(), sample.instance_masks)
            assert torch.equal(labels, sample.labels)


class FakeTrainer:
    """Makes its loaders as the Trainer of transformers does."""

    def __init__(self, folder: Path, train_dataset: SceneDataset, data_collator: object) -> None:
        self.args = SimpleNamespace(output_dir=str(folder))
        self.train_dataset, self.data_collator = train_dataset, data_collator

    def get_train_dataloader(self) -> DataLoader[DenseSample]:
        return self._loader(self.train_dataset)

    def get_eval_dataloader(self, eval_dataset: SceneDataset) -> DataLoader[DenseSample]:
        return self._loader(eval_dataset)

    def get_test_dataloader(self, test_dataset: SceneDataset) -> DataLoader[DenseSample]:
        return self._loader(test_dataset)

    def _loader(self, dataset: SceneDataset) -> DataLoader[DenseSample]:
        return DataLoader(dataset, 4, collate_fn=self.data_collator)  # type: ignore[arg-type]


class TestTrainerThatEvaluatesWithoutPastes:
    SCENES = SceneDataset(4, SceneConfig(height=32, width=32), modalities=[Modality.INSTANCE])

    def made(self, folder: Path, **options: Any) -> Any:
        collator = CopyPasteCollator(BatchCopyPaste(EVERY_IMAGE), 24, partial(to_detr, **COLOURS), **options)
        return with_copy_paste(FakeTrainer)(folder, self.SCENES, collator)

    def test_only_training_is_pasted(self, tmp_path: Path) -> None:
        trainer = self.made(tmp_path)
        assert type(trainer).__name__ == "CopyPasteFakeTrainer"
        loaders = trainer.get_eval_dataloader(self.SCENES), trainer.get_test_dataloader(self.SCENES)
        assert trainer.get_train_dataloader().collate_fn is trainer.data_collator
        for loader in loaders:
            (inputs,) = loader
            found = [len(target["class_labels"]) for target in inputs["labels"]]
            assert found == [scene.num_instances for scene in self.SCENES]
        assert not list(tmp_path.iterdir())  # the picture is of a pasted batch

    def test_the_first_batch_is_a_picture_in_the_trainers_folder(self, tmp_path: Path) -> None:
        seen: list[PaddedBatchedDenseSample] = []
        trainer = self.made(tmp_path)
        trainer.data_collator.augment.register_forward_hook(lambda module, inputs, output: seen.append(output))
        for _ in range(2):
            list(trainer.get_train_dataloader())
        show(seen[0], path=tmp_path / "expected.jpg", value_range=(0, 255), class_names=self.SCENES.class_names)
        assert (tmp_path / "copy_paste_batch.jpg").read_bytes() == (tmp_path / "expected.jpg").read_bytes()

    def test_the_collator_says_where_it_is(self, tmp_path: Path) -> None:
        for own, found in ((tmp_path / "own.png", {"own.png"}), (False, set())):
            trainer = self.made(tmp_path / "out", first_batch=own)
            list(trainer.get_train_dataloader())
            assert {path.name for path in tmp_path.rglob("*.*")} == found
            (tmp_path / "own.png").unlink(missing_ok=True)

    def test_what_is_no_trainer_and_no_collator(self, tmp_path: Path) -> None:
        with pytest.raises(TypeError, match="expected a trainer class of transformers, got 'x'"):
            with_copy_paste("x")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="expected a CopyPasteCollator as data_collator, got a type; make one"):
            with_copy_paste(FakeTrainer)(tmp_path, self.SCENES, list)
