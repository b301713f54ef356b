"""Crops of a whole dataset for one step of a trainer after another."""

from __future__ import annotations

import pytest

from kept_scenes import KeptScenes
from segpaste import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.augmentation import SourceConfig
from segpaste.datasets.scenes import SceneConfig
from segpaste.integrations._training import DatasetCrops
from segpaste.types import Modality

AUGMENT = BatchCopyPaste(
    BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=SourceConfig(kind="bank", crops_per_target=4))
)
SCENES = KeptScenes(8, SceneConfig(height=32, width=32), modalities=[Modality.INSTANCE])


@pytest.mark.parametrize("num_workers", [0, 1])
def test_steps_beyond_those_announced_draw_anew(num_workers: int) -> None:
    """Two steps are announced, and five are made: their draws differ from all others, and repeat in another run."""

    def drawn(num_steps: int, num_epochs: int) -> list[list[float]]:
        crops = DatasetCrops(
            "test", AUGMENT, SCENES, "class_uniform", batch_size=2, num_steps=2, seed=1, num_workers=num_workers
        )
        steps = [(epoch, step) for epoch in range(num_epochs) for step in range(num_steps)]
        taken = [crops.take(2, epoch) for epoch, _ in steps]
        return [staged.images.double().sum((1, 2, 3, 4)).tolist() for staged in taken]

    longer, announced = drawn(5, 2), drawn(2, 2)
    assert longer == drawn(5, 2)
    assert len({tuple(step) for step in longer}) == 10
    assert [*longer[:2], *longer[5:7]] == announced
