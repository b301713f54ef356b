"""Format of Pascal VOC, and its XML files; `segpaste.datasets.formats.voc.files` finds the files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from segpaste._pixels import Size
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError, each
from segpaste.datasets.formats.folders import IMAGE_SUFFIXES
from segpaste.datasets.formats.format import ReadOptions, file_digest
from segpaste.datasets.formats.image_files import upright_size
from segpaste.datasets.formats.outlined import AnnotatedImage, ShapeTable
from segpaste.datasets.formats.outlined_format import Located, OutlinedFormat, expect_no_pose
from segpaste.datasets.formats.text_files import parse_xml
from segpaste.datasets.formats.tool_shapes import class_rows
from segpaste.datasets.formats.voc.files import VOC_CLASSES, VocFolder, find_splits, listed_classes, map_facts, read_xml

if TYPE_CHECKING:
    from segpaste.datasets.formats.annotated_images import AnnotatedImages
    from segpaste.datasets.formats.image_annotations import ImageAnnotations


class VocFormat(OutlinedFormat):
    """Pascal VOC, see `segpaste.datasets.formats.voc.files`."""

    name = "voc"
    title = "Pascal VOC"
    files = (
        "JPEGImages/ with SegmentationObject/, SegmentationClass/ or Annotations/; or NAME.xml next to each image, or "
        "in labels/ beside images/"
    )
    gives = "masks, semantic maps, ignored regions; or boxes only"
    takes = frozenset({"task"})
    void_is_contour = True

    def splits(self, path: Path) -> tuple[str, ...] | None:
        """Return the lists of ``ImageSets``, or the folders of XML files."""
        return find_splits(path)

    def locate(self, path: Path, split: str, options: ReadOptions) -> Located:
        """Return the folder of images, that of the dataset, and the function that reads the XML files."""
        folder = VocFolder(path, split)
        return Located(folder.images_dir, path, partial(read_voc, folder, False))

    def open(self, path: Path, split: str, options: ReadOptions) -> AnnotatedImages:
        """Open a split: its maps, or the boxes of its XML files.

        Boxes are read for the task detect, without maps, and if there are boxes but no maps of objects.
        """
        if not _is_drawn(folder := VocFolder(path, split), options):
            return super().open(path, split, options)
        from segpaste.datasets.formats.voc.dataset import VocMasks  # with torch, for samples

        expect_no_pose(path, options)
        read = partial(read_voc, folder, True)
        return VocMasks(folder.images_dir, path, read, read(), transforms=options.transforms)

    def read(self, path: Path, split: str, options: ReadOptions) -> ImageAnnotations:
        """Read the boxes of a split; maps are those of samples."""
        is_drawn = _is_drawn(VocFolder(path, split), options)
        return self.open(path, split, options) if is_drawn else super().read(path, split, options)


def _is_drawn(folder: VocFolder, options: ReadOptions) -> bool:
    """Return whether the maps of a split are read."""
    is_boxed = options.task == "detect" or not folder.maps
    return not is_boxed and (folder.has_objects or not folder.has_boxes())


def read_voc(folder: VocFolder, are_masks: bool) -> ShapeTable:
    """Read the XML files of a split, and for masks the sizes and digests of its maps.

    Raises:
        DatasetError: an image, XML file or map is missing or broken.
    """
    names, digest = folder.image_names(), hashlib.sha256(json.dumps([folder.split, are_masks]).encode())
    listed = listed_classes(folder.path)[0]

    def read(stem: str) -> AnnotatedImage:
        file = folder.xml_file(stem)
        if not are_masks and file is None:
            missing = folder.boxes_dir / f"{stem}.xml"
            raise DatasetError(f"{missing}: expected the boxes of an image of the split, found no such file; add it")
        maps = [map_facts(folder.map_file(name, stem)) for name in (folder.maps if are_masks else ())]
        size = maps[0][0] if maps else None
        image = _image(folder, stem, _image_name(folder, stem, names.get(stem, []), file), file, size, listed or ())
        digest.update(stem.encode(errors="surrogatepass"))
        for of_file in [*([] if file is None else [file_digest(file)]), *(of_map for _, of_map in maps)]:
            digest.update(of_file.encode())
        return image

    images = [*each(folder.stems(are_masks), read)]
    used = sorted({shape.label for image in images for shape in image.shapes})
    categories = _categories(folder, used, are_masks, listed)
    digest.update(json.dumps(categories).encode())
    return ShapeTable(folder.path, images, categories, digest.hexdigest())


def _image_name(folder: VocFolder, stem: str, names: Sequence[str], xml: Path | None) -> str:
    """Return the file name of an image: of several, the one in its XML file; of none, that one, or with ``.jpg``."""
    if len(names) == 1:
        return names[0]
    said = "" if xml is None else parse_xml(xml).findtext("filename") or ""
    said = Path(said.replace("\\", "/")).name.strip()
    if names and said not in names:
        raise DatasetError(
            f"{folder.images_dir / names[0]}: expected one image of this name, got {', '.join(names)}; move the others "
            f"away, or give the right one as <filename> in {stem}.xml"
        )
    is_one = Path(said).suffix.lower() in IMAGE_SUFFIXES or (folder.images_dir / said).is_file()
    return said if Path(said).stem == stem and is_one else f"{stem}.jpg"


def _image(
    folder: VocFolder, stem: str, name: str, file: Path | None, map_size: Size | None, listed: Sequence[str]
) -> AnnotatedImage:
    """Read the XML file of an image, whose size is that of its map; without maps, as its XML file says."""
    if map_size is None:
        assert file is not None
        return read_xml(file, name, lambda: upright_size(folder.images_dir / name), listed)
    height, width = map_size
    row: JsonRow = {"file_name": name, "height": height, "width": width}
    if file is None:
        return AnnotatedImage(row, [])
    found = read_xml(file, name, lambda: (height, width), listed)
    return AnnotatedImage({**found.row, **row}, found.shapes, unread=found.unread)


def _categories(folder: VocFolder, used: list[str], are_masks: bool, listed: list[str] | None) -> list[JsonRow]:
    """Return the classes: by their indices in the maps, or for boxes without the background."""
    if listed is None and not folder.is_flat and {*used} <= {*VOC_CLASSES}:
        listed = ["background", *VOC_CLASSES]
    if are_masks:
        if listed is None:
            raise DatasetError(
                f"{folder.path}: expected the classes of the maps in class_names.txt, one per line, starting with the "
                "background, or in labelmap.txt, found neither, but classes that are not those of VOC: "
                f"{', '.join(used[:5])}; add it"
            )
    elif listed is not None:
        listed = listed[1:]
    rows = class_rows(folder.path, used, listed)
    return [*({"name": name} for name in listed or ()), *rows[len({*(listed or ())}) :]]  # equal names stay, in place
