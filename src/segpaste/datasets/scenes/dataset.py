"""Dataset and batches of scenes: rays are cast into a random room, and all fields are read from their hits."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import torch
from torchvision import tv_tensors

from segpaste._reprs import counted, described
from segpaste.datasets.contract import AnnotatedDataset
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.scenes._geometry import Array, Points, Scene
from segpaste.datasets.scenes._rendering import CORNERS, Hits, cast_scene, corner_points, render_image
from segpaste.datasets.scenes._rooms import STUFF_NAMES, SceneConfig, draw_scene
from segpaste.seeding import SampleKey, derive_seed, key_tensors
from segpaste.types import (
    FIELDS,
    IGNORE_INDEX,
    BatchedDenseSample,
    DenseSample,
    InstanceMask,
    Modality,
    PaddedBatchedDenseSample,
    PanopticMap,
    SemanticMap,
    tight_boxes,
)


@dataclass(frozen=True, slots=True)
class SceneSchema:
    """Classes of scenes, a `segpaste.types.PanopticSchema`.

    Attributes:
        thing_names: names of the thing classes, ids from 0.
        stuff_names: names of the stuff classes, ids after those.
        ignore_index: the class of unlabelled pixels.
        max_instances_per_image: largest number of instances, pasted ones included.
    """

    thing_names: tuple[str, ...]
    stuff_names: tuple[str, ...] = STUFF_NAMES
    ignore_index: int = IGNORE_INDEX
    max_instances_per_image: int = 256

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of all classes, things first; the position is the id."""
        return self.thing_names + self.stuff_names

    @property
    def classes(self) -> Mapping[int, Literal["thing", "stuff"]]:
        """Class id to ``"thing"`` or ``"stuff"``, immutable."""
        num_things = len(self.thing_names)
        return MappingProxyType({c: "thing" if c < num_things else "stuff" for c in range(len(self.class_names))})


class SceneDataset(AnnotatedDataset):
    """Map-style dataset of rendered scenes.

    Args:
        num_scenes: number of scenes.
        config: distribution of the scenes.
        seed: scene i is a pure function of (seed, i) and of the configuration.
        modalities: fields of the samples besides image, boxes and labels; panoptic includes instance and semantic,
            depth is metric and includes the intrinsics.
        keypoints: True to add the corners of boxes as keypoints.

    Raises:
        ValueError: ``num_scenes`` is negative.
    """

    def __init__(
        self,
        num_scenes: int,
        config: SceneConfig = SceneConfig(),  # noqa: B008 (frozen)
        seed: int = 0,
        modalities: Collection[Modality] = tuple(Modality),
        keypoints: bool = False,
    ) -> None:
        if num_scenes < 0:
            raise ValueError(f"SceneDataset: expected num_scenes >= 0, got {num_scenes}")
        self.num_scenes = num_scenes
        self.config = config
        self.seed = seed
        self.modalities = frozenset(Modality(m) for m in modalities)
        self.keypoints = keypoints
        self.schema: SceneSchema = SceneSchema(config.thing_names)
        self.class_names = self.schema.class_names
        self.keypoint_schema = CORNERS if keypoints else None
        self.has_masks = bool({Modality.INSTANCE, Modality.PANOPTIC} & self.modalities)
        self.has_semantic_maps = bool({Modality.SEMANTIC, Modality.PANOPTIC} & self.modalities)

    def __len__(self) -> int:
        return self.num_scenes

    def __repr__(self) -> str:
        size = lambda: f"{self.config.height} x {self.config.width}"  # noqa: E731
        return described(self, lambda: counted(self.num_scenes, "scene"), size, lambda: f"seed {self.seed}")

    def file_name(self, index: int) -> str:
        """Return ``scene`` and the index."""
        return f"scene {index}"

    def image_row(self, index: int) -> JsonRow:
        """Return an empty entry: there is no file."""
        return {}

    def annotation_ids(self, index: int) -> Sequence[int]:
        """Return the id of each solid of a scene, including hidden ones; instance id i + 1 is at position i."""
        return range(1, len(self.scene(index).solids) + 1)

    def scene(self, index: int) -> Scene:
        """Return the geometry of the sample of an index; instance ids are positions in ``solids`` plus 1.

        Raises:
            IndexError: the index is not in -len .. len - 1.
        """
        if not -self.num_scenes <= index < self.num_scenes:
            raise IndexError(f"SceneDataset: expected an index below {self.num_scenes}, the length, got {index}")
        sample_seed = derive_seed(self.seed, 0, 0, 0, index % self.num_scenes)
        return draw_scene(self.config, np.random.Generator(np.random.Philox(key=sample_seed)))

    def __getitem__(self, index: int) -> DenseSample:
        return render_scene(self.scene(index), self.config, self.modalities, self.keypoints)


def render_scene(
    scene: Scene,
    config: SceneConfig,
    modalities: Collection[Modality] = tuple(Modality),
    keypoints: bool = False,
) -> DenseSample:
    """Render the image and ground truth of one scene.

    Masks are the visible parts, so they do not overlap. A solid that is visible at no pixel centre is absent.

    Args:
        scene: the scene.
        config: the configuration that it was drawn from.
        modalities: fields of the sample, as for `SceneDataset`.
        keypoints: as for `SceneDataset`.

    Returns:
        The sample: an image of uint8 [3, H, W], and the fields of the modalities. Depth is z in metres, 0 where it is
        invalid: windows, mirrors, grazing surfaces. Normals are zero in windows and unit vectors everywhere else.
    """
    rays = scene.rays()
    hits = cast_scene(scene, rays)
    semantic = np.array([s.class_id for s in scene.surfaces], np.int64)[hits.surface]
    values: dict[str, Any] = {
        "image": tv_tensors.Image(torch.from_numpy(render_image(scene, config.rays_per_px)), device="cpu"),
        "semantic_map": SemanticMap(torch.from_numpy(semantic)),
        **_instance_fields(scene, hits),
        **_geometry_fields(scene, config, hits, rays, semantic),
    }
    names = _names_of(modalities)
    if keypoints:
        names |= {"keypoints", "keypoint_schema"}
    return DenseSample(**{name: value for name, value in values.items() if name in names})


def scene_batch(
    batch_size: int,
    max_instances: int,
    config: SceneConfig = SceneConfig(),  # noqa: B008 (frozen)
    seed: int = 0,
    keypoints: bool = False,
) -> PaddedBatchedDenseSample:
    """Render a batch of scenes with all modalities.

    Args:
        batch_size: B, at least 1.
        max_instances: K; a scene with more objects keeps the K largest.
        config: distribution of the scenes.
        seed: as for `SceneDataset`; the batch has its first B scenes.
        keypoints: as for `SceneDataset`.

    Returns:
        The batch, with ``sample_seeds`` and ``sample_keys``.

    Raises:
        ValueError: ``batch_size`` is below 1.
    """
    if batch_size < 1:
        raise ValueError(f"scene_batch: expected batch_size >= 1, got {batch_size}")
    dataset = SceneDataset(batch_size, config, seed, keypoints=keypoints)
    batch = BatchedDenseSample.from_samples([dataset[i] for i in range(batch_size)])
    keys = [SampleKey(seed, 0, 0, 0, i) for i in range(batch_size)]
    return batch.to_padded(max_instances, overflow="largest", **key_tensors(keys))


def _names_of(modalities: Collection[Modality]) -> set[str]:
    """Return the fields of these modalities and the fields that they require."""
    wanted = {*modalities, Modality.INSTANCE} if Modality.PANOPTIC in modalities else {*modalities}
    names = {f.name for f in FIELDS if f.required or f.modality in wanted}
    names |= {need for f in FIELDS if f.name in names for need in f.needs}
    return names | ({"camera_intrinsics", "metric_depth"} if "depth" in names else set())


def _instance_fields(scene: Scene, hits: Hits) -> dict[str, Any]:
    """Return panoptic map, masks, boxes, labels, ids and keypoints."""
    first_solid = len(scene.surfaces) - len(scene.solids)
    panoptic = np.maximum(hits.surface - (first_solid - 1), 0)
    ids = np.flatnonzero(np.bincount(panoptic.reshape(-1))[1:]) + 1
    masks = panoptic == ids[:, None, None]
    boxes = tight_boxes(torch.from_numpy(masks))
    labels = np.array([scene.solids[i - 1].class_id for i in ids], np.int64)
    return {
        "panoptic_map": PanopticMap(torch.from_numpy(panoptic)),
        "instance_ids": torch.from_numpy(ids.astype(np.int32)),
        "instance_masks": InstanceMask(torch.from_numpy(masks)),
        "boxes": tv_tensors.BoundingBoxes(
            boxes, format="XYXY", canvas_size=(scene.height, scene.width), device=boxes.device
        ),
        "labels": torch.from_numpy(labels),
        "keypoints": corner_points(scene, hits, ids),
        "keypoint_schema": CORNERS,
    }


def _geometry_fields(scene: Scene, config: SceneConfig, hits: Hits, rays: Points, semantic: Array) -> dict[str, Any]:
    """Return depth, its validity, normals and camera. Invalid depth is 0; normals are zero in windows."""
    x, y, z = rays
    n_x, n_y, n_z = hits.normals
    cosine = -(n_x * x + n_y * y + n_z * z) / np.sqrt(x * x + y * y + z * z)
    window = semantic == config.stuff_id("window")
    valid = ~window & (semantic != IGNORE_INDEX) & (cosine >= config.grazing_cos)
    depth = np.where(valid, hits.depth, 0).astype(np.float32)
    normals = np.where(window, 0, hits.normals).astype(np.float32)
    return {
        "depth": torch.from_numpy(depth[None]),
        "depth_valid": torch.from_numpy(valid[None]),
        "normals": torch.from_numpy(normals),
        "camera_intrinsics": scene.camera,
        "metric_depth": True,
    }
