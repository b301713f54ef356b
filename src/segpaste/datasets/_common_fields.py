"""Common fields of the samples of joined datasets, so that the samples can share a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from segpaste.datasets.errors import DatasetError
from segpaste.types import CrowdMask, DenseSample, InstanceMask, KeypointSchema, PanopticMap, SemanticMap
from segpaste.types.fields import SAMPLE_FIELDS
from segpaste.types.tensors import IGNORE_INDEX

MOST_TRIES = 16
_FILLED = frozenset({"crowd_mask", "keypoints"})
"""Fields added to samples without them; their default values say that nothing is labelled."""
_OF_OBJECTS = frozenset({"instance_ids", "instance_masks"})
_OF_SURFACES = frozenset({"depth", "depth_valid", "normals"})
"""Fields that a dataset without classes gets, too: nothing of its surfaces is valid."""
_OF_CLASSES = frozenset({"semantic_map", "panoptic_map"})
"""Fields that it gets, too: all of its pixels are background, or void if there is no such class."""


@dataclass(frozen=True, slots=True)
class CommonFields:
    """Fields that all samples have.

    Attributes:
        names: names of the datasets.
        present: optional fields that are present.
        metric_depth: True if depth is present and metric.
        keypoint_schema: names of the keypoints; None without keypoints.
        leaves_out: True to drop other fields, False to reject them.
        has_objects: for each dataset, True if it has classes.
        background: class of all pixels in semantic maps of datasets without classes, `IGNORE_INDEX` for void.
    """

    names: tuple[str, ...]
    present: frozenset[str]
    metric_depth: bool
    keypoint_schema: KeypointSchema | None
    leaves_out: bool
    has_objects: tuple[bool, ...]
    background: int = IGNORE_INDEX

    @classmethod
    def of(
        cls,
        datasets: Sequence[Any],
        names: Sequence[str],
        fields: Literal["same", "common"],
        background: int = IGNORE_INDEX,
    ) -> CommonFields:
        """Determine the fields from one sample of each dataset.

        Raises:
            ValueError: ``fields`` has an unknown value.
            DatasetError: no sample of a dataset can be read, or its fields differ from those of the first.
        """
        if fields not in ("same", "common"):
            raise ValueError(f"fields: expected 'same' or 'common', got {fields!r}")
        leaves_out = fields == "common"
        has_objects = tuple(bool(dataset.class_names) for dataset in datasets)
        samples = [_first_of(dataset) for dataset in datasets]
        found = [_present(sample) for sample in samples]
        with_objects = [n for n in range(len(datasets)) if has_objects[n]] or list(range(len(datasets)))
        first = with_objects[0]
        schema = _schema(samples, names, leaves_out)
        present = set(found[first] - _FILLED)
        if leaves_out:
            present &= present.intersection(*(found[n] for n in with_objects))
            present &= present.intersection(*(fields_of | _OF_OBJECTS for fields_of in found))
            present -= _parted(samples, present)
        present |= {"keypoints"} if schema is not None else set()
        present |= {"crowd_mask"} if any("crowd_mask" in fields_of for fields_of in found) else set()
        is_metric = samples[first].metric_depth
        common = cls(tuple(names), frozenset(present), is_metric, schema, leaves_out, has_objects, background)
        for n, sample in enumerate(samples):
            common._check(sample, n, first)
        return common

    @property
    def has_crowds(self) -> bool:
        """True if samples have a crowd mask."""
        return "crowd_mask" in self.present

    def fitted(self, sample: DenseSample, part: int) -> DenseSample:
        """Return a sample of dataset number ``part``, reduced or extended to the common fields.

        Raises:
            DatasetError: it lacks a common field.
        """
        there = _present(sample)
        if there == self.present and (sample.metric_depth, sample.keypoint_schema) == self._flags():
            return sample
        self._check(sample, part, 0)
        height, width = sample.canvas_size
        values: dict[str, Any] = dict.fromkeys(there - self.present)
        if "crowd_mask" in self.present - there:
            values["crowd_mask"] = CrowdMask(torch.zeros(1, height, width, dtype=torch.bool, device="cpu"))
        if "instance_masks" in self.present - there:
            values["instance_masks"] = InstanceMask(torch.zeros(0, height, width, dtype=torch.bool, device="cpu"))
            values["instance_ids"] = torch.zeros(0, dtype=torch.int32, device="cpu")
        for name, kind, value in (("semantic_map", SemanticMap, self.background), ("panoptic_map", PanopticMap, 0)):
            if name in self.present - there:
                values[name] = kind(torch.full((height, width), value, dtype=torch.int64, device="cpu"))
        if "depth" in self.present - there:
            values["depth"] = torch.zeros(1, height, width, dtype=torch.float32, device="cpu")
            values["depth_valid"] = torch.zeros(1, height, width, dtype=torch.bool, device="cpu")
        if "normals" in self.present - there:
            values["normals"] = torch.zeros(3, height, width, dtype=torch.float32, device="cpu")
        if self.keypoint_schema is not None and "keypoints" not in there:
            values["keypoints"] = torch.zeros(
                sample.num_instances, self.keypoint_schema.num_points, 3, dtype=torch.float32, device="cpu"
            )
        values |= {"metric_depth": self.metric_depth and "depth" in self.present}
        return replace(sample, **values, keypoint_schema=self.keypoint_schema)

    def _flags(self) -> tuple[bool, KeypointSchema | None]:
        return self.metric_depth and "depth" in self.present, self.keypoint_schema

    def _check(self, sample: DenseSample, part: int, first: int) -> None:
        there = _present(sample)
        may_lack = _FILLED if self.has_objects[part] else _FILLED | _OF_OBJECTS | _OF_SURFACES | _OF_CLASSES
        missing = self.present - there - may_lack
        more = set() if self.leaves_out else there - self.present - may_lack
        if "depth" in there & self.present and sample.metric_depth != self.metric_depth:
            more = more | {"metric_depth"}
        if missing or more:
            what = ", ".join(sorted(missing | more))
            raise DatasetError(
                f"{self.names[part]}: expected samples with the same fields as those of {self.names[first]}, got a "
                f"difference in {what}; join datasets of the same modalities"
            )


def _present(sample: DenseSample) -> frozenset[str]:
    """Return the optional fields that a sample has."""
    return frozenset(f.name for f in SAMPLE_FIELDS if not f.required and getattr(sample, f.name) is not None)


def _first_of(dataset: Any) -> DenseSample:
    """Return the first readable sample among the first `MOST_TRIES`."""
    error: DatasetError | None = None
    for index in range(min(len(dataset), MOST_TRIES)):
        try:
            sample: DenseSample = dataset[index]
        except DatasetError as caught:
            error = error or caught
        else:
            return sample
    raise error or DatasetError(f"{type(dataset).__name__}: expected a dataset with samples, got an empty one")


def _parted(samples: Sequence[DenseSample], present: set[str]) -> set[str]:
    """Return the depth fields if some depth is metric and some is not, or a camera is missing."""
    kinds = {sample.metric_depth for sample in samples}
    is_whole = kinds == {False} or (kinds == {True} and "camera_intrinsics" in present)
    return set() if is_whole else {"depth", "depth_valid"}


def _schema(samples: Sequence[DenseSample], names: Sequence[str], leaves_out: bool) -> KeypointSchema | None:
    """Return the common keypoint schema; None if there are no keypoints, or if schemas differ and may be left out."""
    found = {
        name: sample.keypoint_schema for name, sample in zip(names, samples, strict=True) if sample.keypoint_schema
    }
    schemas = list(found.values())
    if not schemas or all(schema == schemas[0] for schema in schemas):
        return schemas[0] if schemas else None
    if leaves_out:
        return None
    raise DatasetError(f"{', '.join(found)}: expected keypoints of the same names in all datasets, got different names")
