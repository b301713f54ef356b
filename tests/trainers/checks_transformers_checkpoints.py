"""Checkpoints of transformers' Trainer, and ``from_pretrained``, for a model that owns the augmentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

from samples import EVERY_OBJECT, SCHEMA, make_batch
from segpaste import BatchCopyPaste, BatchCopyPasteConfig, PaddedBatchedDenseSample
from segpaste.augmentation import PanopticConfig

SAVED = (0.25, (1, 2), 0.5)


class OwnerConfig(transformers.PretrainedConfig):  # type: ignore[misc]
    model_type = "owner"


class Owner(transformers.PreTrainedModel):  # type: ignore[misc]
    config_class = OwnerConfig

    def __init__(self, config: OwnerConfig) -> None:
        super().__init__(config)
        placement = {"paste_prob": 1.0, "layers": 3, "grouping": "instance", "class_sizes": {1: {"low": 3, "high": 5}}}
        panoptic = PanopticConfig.model_validate({"taxonomy": SCHEMA, "contact_priority": {1: 1}})
        made: Any = {"placement": placement, "panoptic": panoptic, "source": EVERY_OBJECT}
        self.augment = BatchCopyPaste(BatchCopyPasteConfig(**made))
        self.layer = torch.nn.Conv2d(3, 1, 1)
        self.post_init()

    def forward(self, seed: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": self.layer(self.augment(batch_of(int(seed[0]))).images.float() / 255).square().mean()}


def batch_of(seed: int) -> PaddedBatchedDenseSample:
    return make_batch(3, num_instances=3, max_instances=7, seed=seed)


def expect_pastes_of(model: Owner, expected: Owner) -> None:
    """Expect the pastes of another model, at least one; both are in training mode, as nothing is pasted in another."""
    batches = [batch_of(seed) for seed in range(3)]
    pasted = [expected.augment(batch).images for batch in batches]
    assert any(not torch.equal(images, batch.images) for images, batch in zip(pasted, batches, strict=True))
    for batch, images in zip(batches, pasted, strict=True):
        assert torch.equal(model.augment(batch).images, images)


def test_checkpoints_are_written_loaded_and_resumed(tmp_path: Path) -> None:
    def trainer_of(model: Owner, **options: Any) -> Any:
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path),
            per_device_train_batch_size=1,
            save_steps=2,
            lr_scheduler_type="constant",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            **options,
        )
        return transformers.Trainer(model, arguments, train_dataset=[{"seed": i} for i in range(8)])

    model = Owner(OwnerConfig())
    model.augment.schedule.set(paste_prob=0.25, k_range=(1, 2), class_temperature=0.5)
    trainer_of(model, max_steps=3).train()
    junk = [torch.full((n,), 1 << 40, dtype=torch.int64) for n in (4, 6, 257) for _ in range(50)]
    del junk
    found = Owner.from_pretrained(tmp_path / "checkpoint-2").train()  # it comes in eval mode
    assert not torch.equal(found.layer.weight, model.layer.weight)
    resumed = Owner(OwnerConfig())
    trainer_of(resumed, max_steps=3).train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert torch.equal(resumed.layer.weight, model.layer.weight)
    for loaded in (found, resumed):
        schedule = loaded.augment.schedule
        assert (schedule.paste_prob, schedule.k_range, schedule.class_temperature) == SAVED
        expect_pastes_of(loaded, model)


def test_from_pretrained_of_weights_without_augmentation(tmp_path: Path) -> None:
    """The pastes are those of the config."""
    model = Owner(OwnerConfig())
    weights = {name: value for name, value in model.state_dict().items() if name.startswith("layer")}
    model.save_pretrained(tmp_path, state_dict=weights)
    expect_pastes_of(Owner.from_pretrained(tmp_path).train(), model)
