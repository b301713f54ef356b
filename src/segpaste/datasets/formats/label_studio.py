"""Label Studio's export as JSON, a list of tasks with one or several images each: https://labelstud.io/guide/export.

Coordinates are percentages of the image's sides. Polygons, closed vectors, ellipses, brush strokes and bitmasks are
outlines; rectangles, including rotated ones, are boxes. Keypoints belong to the region that they were drawn in
(``parentID``); others are not objects. If a task has several annotations, the one marked as ground truth is read, else
the first that was not cancelled; predictions and drafts are not read. The export JSON-MIN lacks necessary data and is
rejected.
"""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path, PurePosixPath
from urllib.parse import parse_qs, unquote, urlsplit

from segpaste._pixels import Size
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError, each
from segpaste.datasets.formats.folders import files_with
from segpaste.datasets.formats.format import NO_SPLIT, ReadOptions
from segpaste.datasets.formats.image_files import upright_size
from segpaste.datasets.formats.label_studio_results import (
    Region,
    Results,
    parsed_regions,
    shape_of,
    split_by_image,
    tags_of,
)
from segpaste.datasets.formats.outlined import AnnotatedImage, ShapeTable
from segpaste.datasets.formats.outlined_format import Located, OutlinedFormat
from segpaste.datasets.formats.text_files import head_of, json_of
from segpaste.datasets.formats.tool_shapes import (
    FURTHER_POINTS,
    FURTHER_REGIONS,
    POINT_VALUES,
    ImageFiles,
    Point,
    Shape,
)

_HASH_LENGTH = 8


class LabelStudioFile(OutlinedFormat):
    """JSON file of Label Studio, or a folder with the file and its images."""

    name = "label-studio"
    title = "Label Studio's JSON exports"
    files = "FILE.json, a list of tasks, the only one in a folder with the images, or with the folder of the images"
    gives = "masks, keypoints; or boxes only"
    takes = frozenset({"images_dir", "task"})

    def splits(self, path: Path) -> tuple[str, ...] | None:
        """Return the only split."""
        return None if _file(path) is None else (NO_SPLIT,)

    def locate(self, path: Path, split: str, options: ReadOptions) -> Located:
        """Find the file; without ``options.images_dir`` images are beside it, or in ``images`` or ``upload`` there."""
        file = _file(path)
        assert file is not None
        images_dir = file.parent if options.images_dir is None else options.images_dir
        return Located(images_dir, file, partial(read_label_studio, file, images_dir))


def read_label_studio(path: Path, images_dir: Path) -> ShapeTable:
    """Read the tasks of a file; classes are sorted by name.

    Raises:
        DatasetError: the file is broken or JSON-MIN, or a region is invalid.
    """
    content = path.read_bytes()
    left_out, files, num_more, num_guessed = Counter[str](), ImageFiles(images_dir), 0, 0
    tasks = [(task, *_chosen(task["annotations"])) for task in _tasks(path, content)]
    tags = tags_of(result for _, chosen, _ in tasks for result in _results(chosen))

    def read(numbered: tuple[int, tuple[JsonRow, JsonRow, list[JsonRow]]]) -> list[AnnotatedImage]:
        nonlocal num_more, num_guessed
        number, (task, chosen, others) = numbered
        where = f"{path}: task {task.get('id', number)}"
        num_more += len([other for other in others if not other.get("was_cancelled")])
        num_guessed += not chosen and bool(task.get("predictions") or task.get("drafts"))
        of_images = split_by_image(where, task["data"], _results(chosen), tags)
        return [_image(where, task, found, chosen, others, files, left_out) for found in of_images.items()]

    images = [image for found in each(enumerate(tasks, start=1), read) for image in found]
    if num_more:
        warnings.warn(
            f"{path}: {num_more} further annotations of images that have one are not read; mark the intended ones as "
            "ground truth",
            stacklevel=5,
        )
    if num_guessed:
        warnings.warn(
            f"{path}: {num_guessed} tasks have predictions or drafts but no annotation, and are read as images without "
            "objects; submit them in Label Studio, or remove the tasks",
            stacklevel=5,
        )
    shapes = [shape for image in images for shape in image.shapes]
    names = sorted({name for shape in shapes for name in (shape.points or {})})
    with_points = {shape.label for shape in shapes if shape.points}
    categories: list[JsonRow] = [
        {"name": label, **({"keypoints": names, "skeleton": []} if label in with_points else {})}
        for label in sorted({shape.label for shape in shapes})
    ]
    return ShapeTable(
        path, images, categories, hashlib.sha256(content).hexdigest(), {}, dict(left_out), drawn_upright=True
    )


def _file(path: Path) -> Path | None:
    """Return the JSON file of a path, if its first entry looks like a task."""
    if path.is_dir():
        found = [file for file in files_with(path, ".json") if _file(file)]
        return found[0] if len(found) == 1 else None
    if not path.is_file() or path.suffix.lower() != ".json":
        return None
    head = head_of(path).lstrip(b"\xef\xbb\xbf \t\r\n")
    keys = (b'"annotations"', b'"data"', b'"annotator"', b'"original_width"')
    return path if head.startswith(b"[") and any(key in head for key in keys) else None


def _tasks(path: Path, content: bytes) -> list[JsonRow]:
    tasks = json_of(path, content, "JSON of Label Studio", "export it again")
    for number, task in enumerate(tasks, start=1):
        is_one = isinstance(task, dict) and isinstance(task.get("data"), dict)
        rows = task.get("annotations") if is_one else None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise DatasetError(
                f"{path}: task {number}: expected the keys 'data' and 'annotations', got "
                f"{', '.join(task) if isinstance(task, dict) else type(task).__name__:.60}; export as JSON, not as "
                "JSON-MIN"
            )
    found: list[JsonRow] = tasks
    return found


def _chosen(annotations: list[JsonRow]) -> tuple[JsonRow, list[JsonRow]]:
    """Return the annotation to read, empty if there is none, and the others."""
    kept = [row for row in annotations if not row.get("was_cancelled")]
    chosen = next((row for row in kept if row.get("ground_truth")), kept[0] if kept else None)
    return chosen or {}, [row for row in annotations if row is not chosen]


def _results(annotation: JsonRow) -> Results:
    found = annotation.get("result") or []
    return found if isinstance(found, list) else [found]


def _image(
    where: str,
    task: JsonRow,
    image: tuple[str, Results],
    chosen: JsonRow,
    others: list[JsonRow],
    files: ImageFiles,
    left_out: Counter[str],
) -> AnnotatedImage:
    """Return an image of a task by its address and its results, and count the results that enclose nothing."""
    regions, about_image = parsed_regions(where, image[1])
    name = _image_file(where, image[0], files)
    size = _size(where, regions, files.images_dir / name)
    attributes = {
        **{key: value for key, value in task.items() if key not in ("annotations", "id")},
        "task": task.get("id"),
        "annotation": {key: value for key, value in chosen.items() if key != "result"},
        **({"other_annotations": others} if others else {}),
        **about_image,
    }
    row: JsonRow = {"file_name": name, "height": size[0], "width": size[1], "attributes": attributes}
    points, unread = _points_by_parent(regions, size)
    shapes: list[Shape] = []
    open_regions, num_further = [], 0
    for region in regions:
        if region.labels and region.is_open:
            left_out["open vector"] += 1
            open_regions.append(region.value | ({"attributes": region.attributes} if region.attributes else {}))
            num_further += region.num_further
        elif region.kind == "keypoint" or not region.labels:
            if region.kind != "keypoint" or not region.labels or region.parent not in points:
                left_out["keypoint" if region.kind == "keypoint" else "region without a label"] += 1
                open_regions.append(region.value | ({"attributes": region.attributes} if region.attributes else {}))
                num_further += region.num_further
        else:
            where_region = f"{where}: region {region.key!r}"
            shapes.append(shape_of(where_region, region, size, points.get(region.key), unread[region.key]))
    row |= {"shapes": open_regions} if open_regions else {}
    return AnnotatedImage(row, shapes, unread={FURTHER_REGIONS: num_further})


def _points_by_parent(
    regions: list[Region], size: Size
) -> tuple[dict[str, dict[str, Point]], defaultdict[str, Counter[str]]]:
    """Return the keypoints of each region with keypoints, by name, and the numbers of what they lose."""
    parents = {region.key: region for region in regions if region.kind != "keypoint" and region.labels}
    found: dict[str, dict[str, Point]] = {}
    unread: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for region in regions:
        if region.kind == "keypoint" and region.labels and (parent := parents.get(region.parent)) is not None:
            points, lost = found.setdefault(region.parent, {}), unread[region.parent]
            values = [key for key, value in region.attributes.items() if parent.attributes.get(key) != value]
            lost[POINT_VALUES] += len(values) + len(region.labels) - 1
            lost[FURTHER_POINTS] += region.labels[0] in points
            lost[FURTHER_REGIONS] += region.num_further
            points[region.labels[0]] = region.value["x"] * size[1] / 100, region.value["y"] * size[0] / 100, 2
    return found, unread


def _size(where: str, regions: list[Region], image: Path) -> Size:
    """Return (H, W) of an image from its regions, or without regions from its file."""
    sizes = {region.size for region in regions}
    if len(sizes) > 1:
        raise DatasetError(f"{where}: expected one image, got regions on images of several sizes; split the task")
    return next(iter(sizes)) if sizes else upright_size(image)


def _image_file(where: str, address: str, files: ImageFiles) -> str:
    """Return the image file by its address, or by its name, with or without the prefix of an upload."""
    parts = urlsplit(address)
    place = unquote((parse_qs(parts.query).get("d") or [parts.path])[0]).replace("\\", "/")
    place = place.lstrip("/").removeprefix("data/")
    name = Path(place).name
    prefix, dash, rest = name.partition("-")
    names = [name, *([rest] if dash and len(prefix) == _HASH_LENGTH else [])]
    told = f"{parts.netloc}/{place}" if parts.netloc else place
    steps = PurePosixPath(place).parts
    ends = ["/".join(steps[start:]) for start in range(1, len(steps) - 1)]  # an export of another machine
    return files.find(where, told, [place, *ends, *names, *(f"images/{one}" for one in names)])
