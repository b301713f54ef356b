"""Reading of the maps of an image from their files, according to the declaration."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from segpaste._pixels import IGNORE_INDEX, Size
from segpaste.datasets.annotations import Surfaces
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError, naming
from segpaste.datasets.formats.maps.cityscapes import ALL_IDS, WITH_INSTANCES, read_polygons
from segpaste.datasets.formats.maps.declaration import Camera
from segpaste.datasets.formats.maps.decoding import (
    NO_CLASS,
    Classes,
    Ids,
    Objects,
    objects_of_masks,
    read_objects,
    semantic_labels,
)
from segpaste.datasets.formats.maps.files import MapFiles
from segpaste.datasets.formats.maps.geometry import (
    Calibration,
    depth_of,
    depth_of_disparity,
    normals_of,
    read_calibration,
    stored_normals_of,
)
from segpaste.datasets.formats.stored_pixels import one_channel, read_array
from segpaste.datasets.formats.text_files import is_background
from segpaste.types import CameraIntrinsics


@dataclass
class MapReader:
    """Reader of the maps of images.

    Attributes:
        files: files of the dataset.
        classes: classes of the values.
    """

    files: MapFiles
    classes: Classes
    _calibrations: dict[Path, Calibration] = field(default_factory=dict)

    def labels(self, record: JsonRow) -> tuple[Ids | None, Objects | None]:
        """Return the class of each pixel, [H, W] int64, 255 for void, and the objects of an image.

        Either is None if it is not declared. The classes of pixels are also None if a sample cannot hold all classes;
        then the objects tell what is lost.

        Raises:
            DatasetError: a file is broken, or its values are not what was declared.
        """
        semantic, objects = self._decoded(record)
        names = self.classes.names
        if semantic is None or len(names) <= IGNORE_INDEX:
            return None if semantic is None else np.where(semantic == NO_CLASS, IGNORE_INDEX, semantic), objects
        background = 0 if is_background(names[0]) else None
        return None, None if objects is None else objects.without_classes(semantic, background)

    def _decoded(self, record: JsonRow) -> tuple[Ids | None, Objects | None]:
        """Return the class of each pixel, `NO_CLASS` for void, and the objects of an image."""
        declared = self.files.declared
        semantic: Ids | None = None
        if declared.semantic is not None:
            path = self.files.path(record, "semantic")
            values = read_array(path, declared.semantic.key, as_colors=declared.semantic.encoding == "color")
            semantic = semantic_labels(values, declared.semantic, self.classes, str(path))
        found = declared.instances
        if found is None:
            return semantic, None
        if found.encoding == "mask":
            return semantic, self._masks(record)
        path = self.files.path(record, "instances")
        if path.suffix.lower() == ".json":
            values = read_polygons(path, ALL_IDS, WITH_INSTANCES, found.divisor)
        else:
            in_channels = found.encoding in ("class_and_number", "ade20k")
            values = read_array(path, found.key, as_colors=in_channels)
        objects = read_objects(values, found, self.classes, semantic, str(path))
        return objects.classes if semantic is None and declared.things else semantic, objects

    def geometry(self, record: JsonRow) -> tuple[dict[str, Any], set[Size]]:
        """Return depth, normals and intrinsics as fields of a sample, and the (H, W) of their files.

        Raises:
            DatasetError: a file is broken, or its values are not what was declared.
        """
        declared, fields, sizes = self.files.declared, {}, set[Size]()
        if declared.normals is not None:
            path = self.files.path(record, "normals")
            vectors = read_array(path, declared.normals.key, as_colors=True)
            fields["normals"] = normals_of(vectors, declared.normals, str(path))
            sizes.add((fields["normals"].shape[1], fields["normals"].shape[2]))
        if declared.depth is not None or declared.disparity is not None:
            fields |= self._depth(record)
            sizes.add((fields["depth"].shape[1], fields["depth"].shape[2]))
        return fields, sizes

    def stored(self, record: JsonRow) -> Surfaces:
        """Return the surfaces of an image as stored, see `AnnotatedDataset.stored_surfaces`."""
        depth, normals = self.files.declared.depth, self.files.declared.normals
        plane = vectors = None
        if depth is not None:
            plane = one_channel(read_array(self.files.path(record, "depth"), depth.key))
        if normals is not None:
            path = self.files.path(record, "normals")
            vectors = stored_normals_of(read_array(path, normals.key, as_colors=True), normals, str(path))
        return plane, 1.0 if depth is None else depth.metres_per_unit, vectors

    def camera(self, record: JsonRow) -> Calibration | None:
        """Return the calibration of an image; None if there is none.

        Raises:
            DatasetError: its file is missing or has another form.
        """
        camera = self.files.declared.camera
        if camera is None:
            return None
        if camera.files is None:
            return _of_numbers(camera)
        path = self.files.path(record, "camera")
        if path not in self._calibrations:
            if len(self._calibrations) > 64:  # files of single images are read only once
                self._calibrations.clear()
            self._calibrations[path] = read_calibration(path)
        found = self._calibrations[path]
        return found if camera.size is None else Calibration(found.focal, found.centre, camera.size, found.baseline_m)

    def _masks(self, record: JsonRow) -> Objects:
        found = self.files.declared.instances
        assert found is not None
        own = [(path, words) for role, path, words in self.files.paths(record) if role == "instances"]
        paths = [self.files.root / path for path, _ in own]
        names = [found.class_name or words.get("class") or record["words"].get("class", "") for _, words in own]
        labels = [self.classes.label_named(name, str(path)) for name, path in zip(names, paths, strict=True)]
        masks = [read_array(path, found.key) for path in paths]
        for path, mask in zip(paths, masks, strict=True):
            if mask.ndim not in (2, 3) or mask.shape[:2] != masks[0].shape[:2]:
                raise DatasetError(
                    f"{path}: expected a mask of {masks[0].shape[:2]} pixels like {paths[0].name}, got "
                    f"{list(mask.shape)}; make it as large as the image"
                )
        return objects_of_masks(masks, labels)

    def _depth(self, record: JsonRow) -> dict[str, Any]:
        declared, calibration = self.files.declared, self.camera(record)
        if (depth := declared.depth) is not None:
            path = self.files.path(record, "depth")
            valid = None if depth.valid is None else read_array(self.files.path(record, "valid"))
            metres, is_valid = depth_of(read_array(path, depth.key), depth, str(path), valid)
            size = metres.shape[1], metres.shape[2]
            intrinsics = None if calibration is None else self._intrinsics(record, calibration, size)
        else:
            disparity = declared.disparity
            assert disparity is not None
            assert calibration is not None
            path = self.files.path(record, "disparity")
            values = read_array(path, disparity.key)
            intrinsics = self._intrinsics(record, calibration, _size_of(values, path))
            baseline_m = disparity.baseline_m or calibration.baseline_m
            if baseline_m is None:
                raise DatasetError(
                    f"{path}: expected the baseline of the cameras in the camera file, got none; set 'baseline_m' of "
                    "'disparity'"
                )
            metres, is_valid = depth_of_disparity(values, disparity, intrinsics.fx, baseline_m, str(path))
        return {
            "depth": metres,
            "depth_valid": is_valid,
            "camera_intrinsics": intrinsics,
            "metric_depth": intrinsics is not None,
        }

    def _intrinsics(self, record: JsonRow, calibration: Calibration, size: Size) -> CameraIntrinsics:
        camera = self.files.declared.camera
        assert camera is not None
        with naming(f"{self.files.root / record['file_name']}: camera"):
            return calibration.intrinsics(size, camera.pixel_center)


def _of_numbers(camera: Camera) -> Calibration:
    fx, fy, cx, cy = (float(v or 0) for v in (camera.fx, camera.fy, camera.cx, camera.cy))
    return Calibration((fx, fy), (cx, cy), camera.size)


def _size_of(values: np.ndarray[Any, Any], path: Path) -> Size:
    plane = one_channel(values)
    if plane.ndim != 2:
        raise DatasetError(f"{path}: expected one number for each pixel, got {values.dtype} {list(values.shape)}")
    return plane.shape[0], plane.shape[1]
