"""Declaration of a dataset of maps: the files of an image, and the meaning of their values. See docs/guide/maps.md.

Nothing is guessed: void values, units, axes and encodings are declared, by the user in ``segpaste.yaml`` or by a known
format of segpaste.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from segpaste._invalid_values import expectation
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.maps.patterns import PathPattern
from segpaste.datasets.formats.stored_pixels import Color
from segpaste.datasets.formats.yolo.data import read_yaml

DECLARATION_FILE = "segpaste.yaml"

_METRES = {"m": 1.0, "cm": 0.01, "mm": 0.001}


def _expect_pattern(text: str) -> str:
    PathPattern(text)
    return text


Pattern = Annotated[str, AfterValidator(_expect_pattern)]
"""Path pattern, see `segpaste.datasets.formats.maps.patterns`."""
Axis = Literal["right", "left", "up", "down", "forward", "backward"]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class ClassEntry(_Part):
    """Class of a dataset.

    Attributes:
        name: name of the class.
        id: its value in the files; by default its position in the list, from 0.
        color: (R, G, B) in maps of colours.
    """

    name: str
    id: int | None = None
    color: Color | None = None


class SemanticFiles(_Part):
    """Declaration of a map of classes for each image.

    Attributes:
        files: pattern of their paths.
        key: the array of an ``.npz``.
        encoding: ``id`` for the ids of ``classes``; ``color`` for their colours.
        void: ids or colours of pixels without a class.
    """

    files: Pattern
    key: str | None = None
    encoding: Literal["id", "color"] = "id"
    void: tuple[int | Color, ...] = ()


class InstanceFiles(_Part):
    """Declaration of a map of objects for each image, or of a file for each object.

    Attributes:
        files: pattern of their paths; a file for each object has further words, ``{class}`` among them, or ``*``.
        key: the array of an ``.npz``.
        encoding: ``mask``: a file for each object, nonzero in its mask. ``number``: the number of the object, 0 without
            an object; its class is ``class_name``, or that of the semantic map. ``class_number``: class id times
            ``divisor`` plus number; values below ``divisor`` are class ids. ``class_and_number``: the class id in the
            first channel, the number in the second. ``ade20k``: class id R // 10 * 256 + G, number B.
        divisor: divisor of ``class_number``.
        class_name: the class of all objects, with the key ``class``.
        void: values without an object: numbers for ``number``, class ids for the other encodings.
    """

    files: Pattern
    key: str | None = None
    encoding: Literal["mask", "number", "class_number", "class_and_number", "ade20k"]
    divisor: Annotated[int, Field(gt=1)] = 1000
    class_name: Annotated[str | None, Field(alias="class")] = None
    void: tuple[int, ...] = ()


class DepthFiles(_Part):
    """Declaration of a depth map for each image: the distance along the optical axis.

    Attributes:
        files: pattern of their paths.
        key: the array of an ``.npz``, or the channel of an ``.exr``.
        unit: ``m``, ``cm``, ``mm``, or the number of metres per unit.
        invalid: values that mean no measurement, besides 0, negative and not finite ones.
        valid: pattern of image files that are 0 where depth is invalid.
    """

    files: Pattern
    key: str | None = None
    unit: Literal["m", "cm", "mm"] | Positive
    invalid: tuple[float, ...] = ()
    valid: Pattern | None = None

    @field_validator("unit", mode="before")
    @classmethod
    def _expect_unit(cls, unit: Any) -> Any:
        is_number = isinstance(unit, int | float) and not isinstance(unit, bool) and unit > 0
        if not is_number and unit not in _METRES:
            raise ValueError(
                f"expected m, cm, mm or the number of metres per unit, such as 0.0002 for 1/5000, got {unit!r:.40}; "
                "write the number"
            )
        return unit

    @property
    def metres_per_unit(self) -> float:
        """Metres per unit of the stored values."""
        return _METRES[self.unit] if isinstance(self.unit, str) else self.unit


class DisparityFiles(_Part):
    """Declaration of a disparity map for each image; depth is baseline times fx over disparity.

    Attributes:
        files: pattern of their paths.
        key: the array of an ``.npz``, or the channel of an ``.exr``.
        scale: pixels per unit of the stored values.
        offset: number added to the values before scaling.
        invalid: values that mean no measurement, besides those that give no positive disparity.
        baseline_m: distance between the cameras, metres; by default that of the camera file.
    """

    files: Pattern
    key: str | None = None
    scale: Positive = 1.0
    offset: float = 0.0
    invalid: tuple[float, ...] = ()
    baseline_m: Positive | None = None


class NormalFiles(_Part):
    """Declaration of a map of surface normals for each image.

    Attributes:
        files: pattern of their paths.
        key: the array of an ``.npz``, or the layer of an ``.exr``.
        axes: direction of each stored component; see `segpaste.datasets.convert_normals`.
        range: the values that stand for -1 and 1 in files of floats. In image files these are 0 and the largest value.
    """

    files: Pattern
    key: str | None = None
    axes: tuple[Axis, Axis, Axis]
    range: tuple[float, float] = (-1.0, 1.0)


class Camera(_Part):
    """Declaration of the intrinsics: one file, a file for each image, or the numbers.

    Attributes:
        files: pattern of the paths; see `segpaste.datasets.formats.maps.geometry` for the contents.
        fx: horizontal focal length in pixels; fx, fy, cx and cy replace ``files``.
        fy: vertical focal length in pixels.
        cx: x of the principal point in pixels.
        cy: y of the principal point in pixels.
        size: (W, H) of the calibrated images; intrinsics are scaled for other sizes of the same aspect ratio.
        pixel_center: coordinate of the centre of the first pixel: 0 as in OpenCV, or 0.5.
    """

    files: Pattern | None = None
    fx: Positive | None = None
    fy: Positive | None = None
    cx: float | None = None
    cy: float | None = None
    size: tuple[Positive, Positive] | None = None
    pixel_center: Annotated[float, Field(ge=0, le=0.5)] = 0.0

    @model_validator(mode="after")
    def _expect_one_source(self) -> Camera:
        numbers = (self.fx, self.fy, self.cx, self.cy)
        if (self.files is None) == (None in numbers) or (self.files is not None and numbers != (None,) * 4):
            raise ValueError("expected 'files', or 'fx', 'fy', 'cx' and 'cy'; write one of them")
        return self


class MapDeclaration(_Part):
    """Declaration of the files of an image and the meaning of their values.

    Attributes:
        root: the folder to which paths are relative, itself relative to the folder of the declaration.
        photos: pattern of the images, such as ``images/{split}/{name}.jpg``.
        splits: for each split a text file of image names, one per line, if the pattern has no ``{split}``.
        classes: names, by position or id, or entries with ``name``, ``id`` and ``color``; or the path of a list.
        things: names of the classes that have instances; the others are stuff. With this samples are panoptic.
        semantic: maps of classes.
        instances: maps or files of objects.
        depth: depth maps.
        disparity: disparity maps, in place of ``depth``.
        normals: maps of surface normals.
        camera: the intrinsics.
    """

    root: str = "."
    photos: Pattern
    splits: Mapping[str, str] = Field(default_factory=dict)
    classes: str | tuple[ClassEntry, ...] = ()
    things: tuple[str, ...] = ()
    semantic: SemanticFiles | None = None
    instances: InstanceFiles | None = None
    depth: DepthFiles | None = None
    disparity: DisparityFiles | None = None
    normals: NormalFiles | None = None
    camera: Camera | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_short_classes(cls, values: Any) -> Any:
        """Convert a list of names, or a mapping from ids to names, to entries."""
        if not isinstance(values, Mapping) or isinstance(found := values.get("classes"), str):
            return values
        if isinstance(found, Mapping):
            entries: list[Any] = [{"id": number, "name": name} for number, name in found.items()]
        elif isinstance(found, list | tuple):
            entries = [{"name": entry} if isinstance(entry, str) else entry for entry in found]
        else:
            return values
        return {**values, "classes": entries}

    @model_validator(mode="after")
    def _expect_consistent(self) -> MapDeclaration:
        maps = (self.semantic, self.instances, self.depth, self.disparity, self.normals)
        if all(part is None for part in maps):
            raise ValueError("expected one of 'semantic', 'instances', 'depth', 'disparity', 'normals'; add it")
        if self.depth is not None and self.disparity is not None:
            raise ValueError("expected 'depth' or 'disparity', got both; leave one out")
        if self.disparity is not None and self.camera is None:
            raise ValueError("expected 'camera' with 'disparity', since depth needs the focal length; add it")
        if (self.semantic is not None or self.instances is not None) and not self.classes:
            raise ValueError("expected 'classes', the names of the values of the maps; add them")
        _expect_named(self)
        return self


def _expect_named(declared: MapDeclaration) -> None:
    """Check that the classes of objects and things are known.

    Raises:
        ValueError: a class is unknown.
    """
    found = declared.instances
    if found is not None:
        words = PathPattern(found.files).words
        if found.encoding == "mask" and found.class_name is None and "class" not in words:
            raise ValueError(
                "expected 'class' in 'instances', or the placeholder {class} in its 'files'; add one of them"
            )
        if found.encoding == "number" and found.class_name is None and declared.semantic is None:
            raise ValueError("expected 'class' in 'instances', or a semantic map with the classes; add one")
    if declared.things and declared.instances is None:
        raise ValueError("expected 'instances' with 'things', to separate their objects; add it")


_Model = TypeVar("_Model", bound=BaseModel)


def declared(values: Mapping[str, Any], place: str) -> MapDeclaration:
    """Check the values of a declaration.

    Raises:
        DatasetError: a key is unknown or missing, or a value is invalid; the message lists all problems.
    """
    try:
        return MapDeclaration.model_validate(values)
    except ValidationError as error:
        raise DatasetError(f"{place}: {'; '.join(map(_explained, error.errors()))}") from error


def read_declaration(path: Path) -> MapDeclaration:
    """Read a declaration file.

    Raises:
        DatasetError: it cannot be read, or is not a declaration.
    """
    return declared(read_yaml(path), str(path))


def _explained(error: Any) -> str:
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        message = "expected no such key; see the keys in the guide of declarations, or leave it out"
    else:
        message = expectation(error) + ("; add it" if error["type"] == "missing" else "")
    return f"{where}: {message}" if where else message
