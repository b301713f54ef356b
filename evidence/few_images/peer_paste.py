"""`CopyAndPaste` of AlbumentationsX with given donors, so that only the paste differs from ours.

AlbumentationsX is under the AGPL and no dependency: `pip install '.[bench]'`. Donors are flipped with probability 0.5,
which it leaves to its user.
"""

from __future__ import annotations

from typing import Any

import albumentations as A
import numpy as np
import torch
from torch import Tensor

from segpaste.types import BatchedDenseSample, DenseSample, PaddedBatchedDenseSample, StagedCrops
from segpaste.types.check import not_none

from ..samples import sample_of


class PeerPaste:
    """Pastes the staged crops of each image, all of them, with a given probability.

    Args:
        paste_prob: probability of a paste into an image.
        scale_range: size of a donor relative to its crop; it enlarges none.
        seed: of all draws.
    """

    def __init__(self, paste_prob: float, scale_range: tuple[float, float], seed: int) -> None:
        boxes = A.BboxParams(coord_format="pascal_voc", label_fields=["labels"])
        paste = A.CopyAndPaste(scale_range=scale_range, p=1.0)
        self.pipeline = A.Compose([paste], bbox_params=boxes, seed=seed, telemetry=False)
        self.paste_prob, self.rng = paste_prob, np.random.default_rng(seed)

    def __call__(self, batch: PaddedBatchedDenseSample, *, staged: StagedCrops) -> PaddedBatchedDenseSample:
        """Return the batch with pastes, in as many slots."""
        samples = [self._pasted(batch, staged, b) for b in range(batch.batch_size)]
        return BatchedDenseSample.from_samples(samples).to_padded(batch.instance_valid.shape[1])

    def _pasted(self, batch: PaddedBatchedDenseSample, staged: StagedCrops, b: int) -> DenseSample:
        valid = batch.instance_valid[b]
        image = np.ascontiguousarray(batch.images[b].permute(1, 2, 0).numpy())
        masks = not_none(batch.instance_masks)[b][valid].as_subclass(Tensor).to(torch.uint8).numpy()
        labels = batch.labels[b][valid].numpy()
        if self.rng.uniform() < self.paste_prob:
            donors = [donor for k in range(staged.class_ids.shape[1]) if (donor := self._donor(staged, b, k))]
            out = self.pipeline(
                image=image,
                masks=masks,
                bboxes=batch.boxes[b][valid].numpy(),
                labels=labels,
                copy_paste_metadata=donors,
            )
            image, masks, labels = out["image"], np.asarray(out["masks"]), np.asarray(out["labels"], np.int64)
        return sample_of(image, masks, labels)

    def _donor(self, staged: StagedCrops, b: int, k: int) -> dict[str, Any] | None:
        """Return one crop as a donor, or None if it is empty."""
        image, mask = staged.images[b, k].permute(1, 2, 0).numpy(), staged.alphas[b, k, 0].to(torch.uint8).numpy()
        if not mask.any():
            return None
        if self.rng.uniform() < 0.5:
            image, mask = image[:, ::-1], mask[:, ::-1]
        arrays = {"image": np.ascontiguousarray(image), "mask": np.ascontiguousarray(mask)}
        return {**arrays, "bbox_labels": {"labels": int(staged.class_ids[b, k])}}
