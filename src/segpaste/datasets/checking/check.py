"""Check of a dataset: list its files, read the images, measure the annotations, report."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch
from os import PathLike
from typing import TYPE_CHECKING

from segpaste._pixels import Size
from segpaste.datasets.annotations import Annotations
from segpaste.datasets.checking.listings.file_listings import list_coco, list_shapes, list_yolo
from segpaste.datasets.checking.listings.findings import KINDS, Finding, Spread
from segpaste.datasets.checking.listings.image_files import (
    Advance,
    copies_among,
    head_of,
    kind_of,
    look_at,
    named_file,
    unlisted,
)
from segpaste.datasets.checking.listings.listing import ListedObject, Listing
from segpaste.datasets.checking.listings.surfaces import describe_beside
from segpaste.datasets.checking.objects import Measured, ObjectCheck, map_regions, mismatches
from segpaste.datasets.checking.report import ClassHealth, HealthReport, in_order
from segpaste.datasets.checking.tools.registry import chosen_tools, tool_reports
from segpaste.datasets.checking.tools.rules import SAME_CLASSES, Tool
from segpaste.datasets.checking.tools.tool_report import ToolReport
from segpaste.datasets.checking.tools.trait import ListedSplit
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError, collected
from segpaste.datasets.formats.coco.annotations import CocoAnnotations
from segpaste.datasets.formats.coco.folders import CocoFile, CocoFolder, PanopticFolder, RoboflowFolder
from segpaste.datasets.formats.coco.segments import SegmentAnnotations
from segpaste.datasets.formats.format import ReadOptions
from segpaste.datasets.formats.image_annotations import expect_folder
from segpaste.datasets.formats.image_files import ImageHead
from segpaste.datasets.formats.outlined import OutlinedAnnotations
from segpaste.datasets.formats.registry import FoundDataset, find_dataset
from segpaste.datasets.formats.sidecar_maps import UNLISTED
from segpaste.datasets.formats.unread_files import UNREAD_IMAGES
from segpaste.datasets.formats.yolo.annotations import YoloAnnotations
from segpaste.datasets.formats.yolo.data import read_data
from segpaste.datasets.formats.yolo.format import YoloFormat
from segpaste.datasets.large_json.file import AnnotationFile

if TYPE_CHECKING:
    from segpaste.datasets.views import Samples

_SMALL_PX, _MEDIUM_PX = 32**2, 96**2


def check_dataset(
    photos: Samples | Annotations,
    *,
    decode: bool = False,
    num_threads: int = 8,
    tools: Sequence[str | Tool] = (),
    advance: Advance = lambda: None,
) -> HealthReport:
    """Check an opened dataset and return its health.

    The annotations of COCO, LVIS, panoptic and YOLO datasets, of labelling tools and of VOC's XML files are read from
    their files, as stored; ``transforms`` are not called. The annotations of other datasets are checked only with
    ``decode``: their masks, labels and boxes, and that all samples can share a batch. An exception that a sample raises
    is a finding.

    Args:
        photos: a dataset of segpaste or its annotations, or any map-style dataset or list of `DenseSample`.
        decode: read the pixels of all images and maps too, not only their file headers.
        num_threads: number of images read in parallel.
        tools: names of tools that read the dataset, such as ``ultralytics`` or ``pycocotools``, or ``all``; or a `Tool`
            with rules of your own. The report tells what each does to this dataset, as far as it was observed, see
            `HealthReport.tools`.
        advance: called once for each image, for a progress bar.

    Raises:
        DatasetError: a table cannot be read at all, or a tool is unknown.
    """
    chosen = chosen_tools(tools)
    return _report(_listed(photos, num_threads, decode), decode, num_threads, chosen, advance)


def check_unopened(
    path: str | PathLike[str],
    error: DatasetError,
    split: str | None = None,
    options: ReadOptions | None = None,
    *,
    format: str | None = None,
    decode: bool = False,
    num_threads: int = 8,
    tools: Sequence[str | Tool] = (),
) -> HealthReport:
    """Check a dataset that its reader rejects, and return its health with all problems, not only the first.

    Args:
        path: as for `segpaste.datasets.open_dataset`.
        error: error of the reader.
        split: name of the split; by default the training split.
        options: further options of the reader.
        format: name of the format; by default it is recognised.
        decode: as for `check_dataset`.
        num_threads: as for `check_dataset`.
        tools: as for `check_dataset`.

    Raises:
        DatasetError: the given error, if there is no dataset, or an option does not apply to it.
    """
    given, chosen = options or ReadOptions(), chosen_tools(tools)
    try:
        found = find_dataset(path, format)
        name = found.chosen_split(split)
        found.format.expect_taken(found.path, given)
        listing = _list_files(found, name, given, error, num_threads, decode)
    except DatasetError:
        raise error from None
    report = _report(listing, decode, num_threads, chosen, lambda: None)
    if not report.is_healthy:
        return report
    told = tuple(replace(tool, errors=1) for tool in report.tools)
    return replace(report, findings=in_order([_of_error(error), *report.findings]), tools=told)


def tools_of_split(
    found: FoundDataset,
    split: str,
    options: ReadOptions,
    tools: Sequence[str | Tool],
    num_threads: int = 8,
    first: Sequence[JsonRow] | None = None,
) -> tuple[ToolReport, ...]:
    """Return what tools do to a split of a dataset, which may be one that its reader rejects.

    ``first`` are the entries of the classes of the first split, which some tools take for those of all.

    Raises:
        DatasetError: its files cannot be listed.
    """
    try:
        annotations = found.read(split, options)
        report = check_dataset(annotations, tools=tools, num_threads=num_threads)
    except DatasetError as error:
        of = found.format.name
        report = check_unopened(found.path, error, split, options, format=of, tools=tools, num_threads=num_threads)
        return tuple(replace(told, split=split) for told in report.tools)
    by_name, told = {tool.name: tool for tool in chosen_tools(tools)}, []
    for tool in report.tools:
        other = by_name[tool.name].other_classes(first or annotations.categories, annotations.categories)
        lacks = f"{tool.label} takes the classes of the first split for all: {other}; {SAME_CLASSES}" if other else ""
        told.append(replace(tool, split=split, lacks=lacks if tool.reads_format else ""))
    return tuple(told)


def _of_error(error: DatasetError) -> Finding:
    """Return the finding for an error of a reader."""
    return Finding.at(file := named_file(error), kind_of(error, file), str(error))


def _list_files(
    found: FoundDataset, name: str, options: ReadOptions, error: DatasetError, num_threads: int, decode: bool
) -> Listing:
    """List the files of a split that its reader rejects.

    Raises:
        DatasetError: the files have no tables, or the error names no file of the dataset, but an option.
    """
    match found.format:
        case YoloFormat():
            return list_yolo(read_data(found.path), name, options.task)
        case CocoFolder() | RoboflowFolder() as known:
            images, file = known.locate(found.path, name)
            maps = file.with_suffix("") if isinstance(known, PanopticFolder) else None
            return list_coco(file, images, maps, options.repeated_ids)
        case CocoFile():
            if (is_panoptic := AnnotationFile(found.path).is_panoptic) and options.repeated_ids is not None:
                raise error
            maps = (options.panoptic_dir or found.path.with_suffix("")) if is_panoptic else None
            images = expect_folder(options.images_dir or found.path.parent)
            return list_coco(found.path, images, maps, options.repeated_ids)
    with collected() as problems:
        try:
            listing = _listed(found.read(name or None, options), num_threads, decode)
        except DatasetError as last:
            if " (--" in str(last) or named_file(last) in (None, found.path):
                raise
            problems.append(last)
            listing = Listing(has_annotations=False, file=found.path)
    if not problems:
        raise error
    listing.findings += [_of_error(problem) for problem in problems]
    return listing


def _listed(dataset: Samples | Annotations, num_threads: int, decode: bool) -> Listing:
    own, listing = _known(dataset), listed_files(dataset)
    if listing is None:
        from segpaste.datasets.checking.listings.sample_listing import list_samples  # with torch, as samples are

        listing = list_samples(own, num_threads, decode=decode)
    else:
        describe_beside(listing, own, decode=decode)
    _add_unread(listing, own)
    return listing


def _known(dataset: Samples | Annotations) -> Annotations:
    if isinstance(dataset, Annotations):
        return dataset
    from segpaste.datasets.views import annotated  # with torch, whose subsets it knows

    return annotated(dataset)


def _add_unread(listing: Listing, dataset: Annotations) -> None:
    """Add findings about the files of a dataset that belong to no image."""
    unread = dataset.unread_paths()
    listing.unlisted = [path for path, kind in unread.items() if kind in (UNLISTED, UNREAD_IMAGES)]
    for path, kind in unread.items():
        if kind not in (UNLISTED, UNREAD_IMAGES):
            listing.findings.append(Finding.at(path, "stray_labels", f"one of the {kind}"))


@singledispatch
def listed_files(dataset: object) -> Listing | None:
    """List an opened dataset from its annotation files; None if its class has no listing, so that samples are read."""
    return None


@listed_files.register
def _(dataset: CocoAnnotations) -> Listing:
    return list_coco(dataset.annotations_file, dataset.images_dir, repeated_ids=dataset.repeated_ids)


@listed_files.register
def _(dataset: SegmentAnnotations) -> Listing:
    return list_coco(dataset.annotations_file, dataset.images_dir, dataset.panoptic_dir)


@listed_files.register
def _(dataset: YoloAnnotations) -> Listing:
    return list_yolo(dataset.data, dataset.split, dataset.task)


@listed_files.register
def _(dataset: OutlinedAnnotations) -> Listing | None:
    return None if dataset.reads_maps else list_shapes(dataset)


def _report(listing: Listing, decode: bool, num_threads: int, tools: Sequence[Tool], advance: Advance) -> HealthReport:
    heads, of_images = look_at(listing.images, num_threads, decode=decode, advance=advance)
    measured = _measure(listing, heads, decode)
    instances = [found for found in listing.objects if not found.is_crowd and not found.is_stuff]
    per_image = Counter(found.image for found in instances)
    known = [i for i, head in enumerate(heads) if head is not None or listing.images[i].sample_size is not None]
    sizes = [_size_of(listing, heads, i) for i in known]
    forms = [listing.images[i].sample_form if (head := heads[i]) is None else head.mode for i in known]
    findings = [*listing.findings, *of_images, *measured.findings, *_of_images_and_classes(listing, num_threads)]
    errors = sum(found.severity == "error" or found.kind == "repeated_id" for found in findings)
    told = tool_reports(with_heads(listing, heads), tools) if tools else ()
    return HealthReport(
        findings=in_order(findings),
        num_photos=len(listing.images),
        num_objects=len(instances),
        num_crowds=sum(found.is_crowd for found in listing.objects),
        num_with_keypoints=sum(found.has_keypoints for found in listing.objects),
        num_stuff=sum(found.is_stuff for found in listing.objects),
        was_decoded=decode,
        has_annotations=listing.has_annotations,
        classes=_classes(listing),
        photo_width_px=Spread.of(size[1] for size in sizes if size),
        photo_height_px=Spread.of(size[0] for size in sizes if size),
        photo_modes=dict(Counter(filter(None, forms)).most_common()),
        objects_per_photo=Spread.of(per_image[i] for i in range(len(listing.images))),
        object_area_px=Spread.of(measured.areas_px),
        object_area_frac=Spread.of(measured.areas_frac),
        object_sizes=_by_size(measured.areas_px),
        depth=listing.depth,
        normals=listing.normals,
        tools=tuple(replace(tool, errors=errors) for tool in told),
    )


def with_heads(listing: Listing, heads: Sequence[ImageHead | None]) -> ListedSplit:
    """Return a listing with the headers of its images, also of those that segpaste rejects, for `find_traits`."""
    known = [head_of(image) if head is None else head for image, head in zip(listing.images, heads, strict=True)]
    return ListedSplit(listing, known, [_size_of(listing, known, i) for i in range(len(known))])


def _size_of(listing: Listing, heads: Sequence[ImageHead | None], index: int) -> Size | None:
    """Return (H, W) of an image in the frame of its annotations; None if unknown."""
    image, head = listing.images[index], heads[index]
    size = image.size if image.sample_size is None else image.sample_size
    if size is None:
        return None if head is None else head.upright_size
    return size if min(size) > 0 else None


def _measure(listing: Listing, heads: Sequence[ImageHead | None], decode: bool) -> Measured:
    """Check the annotations of all images, image by image."""
    by_image: defaultdict[int, list[ListedObject]] = defaultdict(list)
    for found in listing.objects:
        by_image[found.image].append(found)
    has_maps = any(image.map_path is not None for image in listing.images)
    some_masks = any(found.segmentation is not None for found in listing.objects if not found.is_crowd)
    measured = Measured()
    if not has_maps and not some_masks and any(not found.is_crowd for found in listing.objects):
        listing.find("boxes_alone", f"all {len(listing.objects):,} annotations are boxes")
    check = ObjectCheck(measured, expects_masks=listing.has_masks and some_masks)
    for index, objects in by_image.items():
        image, size = listing.images[index], _size_of(listing, heads, index)
        if size is None:
            continue
        of_map = None
        if decode and image.map_path is not None:
            try:
                of_map = map_regions(image.map_path, size)
            except DatasetError:
                continue  # found when its file was read
            measured.findings += mismatches(image, objects, of_map)
        check.add(image, size, objects, of_map)
    return measured


def _of_images_and_classes(listing: Listing, num_threads: int) -> list[Finding]:
    """Return the findings about images and classes, which belong to no single annotation."""
    shown = {found.image for found in listing.objects}.union(*listing.mapped.values())
    used = {found.label for found in listing.objects} | listing.mapped.keys()
    findings = copies_among(listing.images, num_threads) + unlisted(listing.images, listing.unlisted)
    findings += _equal_names(listing)
    if not listing.has_annotations:
        return findings
    unread = {found.photo for found in listing.findings if KINDS[found.kind][0] == "error"}
    findings += [
        Finding.at(image.path, "no_annotation", f"{image.name} has no annotation", image.name)
        for i, image in enumerate(listing.images)
        if i not in shown and image.name not in unread
    ]
    findings += _unknown_classes(listing)
    findings += [
        Finding.at(listing.file, "unused_category", f"{name!r} has no annotation")
        for i, name in enumerate(listing.class_names)
        if i not in used
    ]
    return findings


def _equal_names(listing: Listing) -> list[Finding]:
    """Return a finding for each name of several classes, with their ids in the file or their numbers."""
    ids = listing.category_ids or range(len(listing.class_names))
    of_name: defaultdict[str, list[int]] = defaultdict(list)
    for name, number in zip(listing.class_names, ids, strict=True):
        of_name[name].append(number)
    return [
        Finding.at(listing.file, "duplicate_name", f"categories {', '.join(map(str, numbers))} have the name {name!r}")
        for name, numbers in sorted(of_name.items())
        if len(numbers) > 1
    ]


def _unknown_classes(listing: Listing) -> list[Finding]:
    """Return a finding for each label without a class; without class names only negative labels have none."""
    most = len(listing.class_names) - 1 if listing.class_names else None
    expected = "a label from 0" if most is None else f"a label from 0 to {most}"
    return [
        Finding.at(
            listing.images[of.image].file,
            "unknown_class",
            f"{of.place(listing.images[of.image])}: expected {expected}, got {of.label}",
            listing.images[of.image].name,
            of.id,
        )
        for of in listing.objects
        if of.label is not None and (of.label < 0 or (most is not None and of.label > most))
    ]


def _classes(listing: Listing) -> tuple[ClassHealth, ...]:
    objects, crowds = Counter[int | None](), Counter[int | None]()
    images: defaultdict[int | None, set[int]] = defaultdict(set)
    for found in listing.objects:
        if found.is_crowd:
            crowds[found.label] += 1
        else:
            objects[found.label] += 1
            images[found.label].add(found.image)
    return tuple(
        ClassHealth(name, objects[label], len(images[label]), crowds[label])
        for label, name in enumerate(listing.class_names)
    )


def _by_size(areas_px: Sequence[float]) -> dict[str, int]:
    """Return the number of areas of each of COCO's sizes."""
    small = sum(area < _SMALL_PX for area in areas_px)
    large = sum(area >= _MEDIUM_PX for area in areas_px)
    return {"small": small, "medium": len(areas_px) - small - large, "large": large}
