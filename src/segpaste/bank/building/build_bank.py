"""Builder of a bank from a dataset: it cuts out all objects, in parts that survive an interruption, and writes them.

    summary = build_bank(photos, "objects", class_names=names, workers=4)

1. The images are divided into parts, and the crops of each part go to their own file, see
   `segpaste.bank.building.parts`.
2. One pass reads the parts in order and passes their records to the writer of the bank.

So the crops are on disk twice for a moment. Memory holds one image for each worker, 16 bytes for each image of the
dataset, and no crops. The same dataset and options give the same bytes with any engine and number of workers, with or
without interruptions. The same call resumes an unfinished build from ``OUT.parts``.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segpaste._reprs import counted
from segpaste._version import __version__
from segpaste.bank.building.cropping import DEFAULT_MARGIN_FRAC
from segpaste.bank.building.parts import PHOTOS_PER_PART, REASONS, PartMaker, Selection, groups_for, stored_id
from segpaste.bank.format import WRITERS
from segpaste.bank.format.data_files import read_meta
from segpaste.bank.format.writer import FolderWriter
from segpaste.bank.schema.meta import Format
from segpaste.bank.schema.record import BankError, Layout, checked_size
from segpaste.bank.storage.destination import check_free
from segpaste.bank.storage.folder import folder_at, is_url, local_path
from segpaste.datasets.contract import AnnotatedDataset
from segpaste.datasets.views import Samples, annotated
from segpaste.extras import require
from segpaste.types import DenseSample
from segpaste.types.fields import flags_of
from segpaste.workspace import MARKER, Run, lock_folder, naming, partial_of, read_fingerprint
from segpaste.workspace.engines import PartEngine, make_parts

_NEEDS: dict[str, tuple[str, ...]] = {
    "lmdb": ("lmdb",),
    "webdataset": ("pyarrow.parquet",),
    "ray": ("ray", "ray.data"),
}


_REMEDIES = {
    "small": "lower min_area_px (--min-area)",
    "cut_off": "build without whole_only (--whole-only)",
    "sparse": "lower min_fill_frac (--min-fill)",
    "vanished": "raise crop_size (--crop-size)",
    "unmapped": "map more classes (--class-map)",
    "unreadable": "repair the images",
}
"""Remedy for a build that keeps no object, by reason; for other reasons, the annotations have to change."""


@dataclass(frozen=True, slots=True)
class BuildSummary:
    """Counts of the annotations of a dataset that became crops, and of the others.

    Attributes:
        where: folder or URL of the bank.
        num_photos: number of images that were read.
        kept: number of crops of each class.
        skipped: number of annotations without a crop, by the keys of `segpaste.bank.building.parts.REASONS`.
        num_trimmed: number of crops whose strays were removed, see `Selection.min_part_frac`.
    """

    where: str
    num_photos: int
    kept: tuple[int, ...]
    skipped: Mapping[str, int]
    num_trimmed: int = 0

    @property
    def num_crops(self) -> int:
        """Number of crops of the bank."""
        return sum(self.kept)


def build_bank(
    photos: Samples,
    out: str | os.PathLike[str],
    *,
    class_names: Sequence[str],
    format: Format = "memmap",
    crop_size: int | tuple[int, int] = (256, 256),
    fit_into: int | tuple[int, int] | None = None,
    margin_frac: float = DEFAULT_MARGIN_FRAC,
    selection: Selection = Selection(),  # noqa: B008 (frozen)
    depth_fill: bool = False,
    groups: Sequence[str] | None = None,
    workers: int = 1,
    engine: PartEngine = "local",
    build_seed: int = 0,
    built_from: Mapping[str, Any] | None = None,
    fingerprint: Mapping[str, Any] | None = None,
    work_dir: str | os.PathLike[str] | None = None,
    skip_unreadable: bool = False,
    **writer_options: Any,
) -> BuildSummary:
    """Build a bank of all objects of a dataset that has instance masks.

    An interrupted build resumes if image ids, class names, options, ``built_from`` and ``fingerprint`` are the same.
    Nothing else is compared: put a digest of the annotations into ``built_from``, or changed annotations are mixed with
    those of the finished parts. Changed pixels in the same files are never noticed; remove the work folder then.

    Args:
        photos: dataset with samples of uint8 images, without padding; also a `torch.utils.data.Subset` or
            `ConcatDataset` of such datasets, whose images then have the numbers of their datasets in the bank.
        out: folder of the bank, new or empty, or a URL for the format webdataset.
        class_names: name of each label.
        format: format of the bank.
        crop_size: size (h, w) of every crop, pixels; one number is both sides of a square.
        fit_into: size (H, W), or side, to which your loader resizes images, pixels: objects of larger images are shrunk
            as if their image was resized to fit into it. By default they keep the size that they have in their image.
            ``selection`` counts the pixels of the image as it is.
        margin_frac: margin of image around each object, see `segpaste.bank.building.cropping.crop_object`.
        selection: choice of the objects that become crops.
        depth_fill: give holes in the depth of an object its nearest valid depth; they stay invalid. See ``depth_order``
            of the paste config. A dataset that was opened with ``depth_fill`` needs no argument.
        groups: optional columns, see `segpaste.bank.schema.record.COLUMNS`; by default provenance and all others that
            the first image has.
        workers: number of processes that cut crops.
        engine: ``"ray"`` runs the workers by Ray Data, on the connected cluster or on this machine; all its nodes must
            then see the work folder.
        build_seed: seed for the meta; nothing is drawn.
        built_from: JSON facts that identify the dataset, such as the digest of its annotations; noted in the meta.
        fingerprint: JSON facts that the crops depend on too, such as the folder of the images; not noted in the meta.
        work_dir: folder of the parts, on a disk, neither in ``out`` nor around it; by default ``OUT.parts``, for a URL
            a folder in the temporary folder of the system.
        skip_unreadable: skip images that cannot be read; they count as ``unreadable`` in ``skipped``.
        writer_options: options of the writer of the format.

    Returns:
        The counts of kept and skipped annotations.

    Raises:
        BankError: an argument or a sample is invalid, the bank exists already, a build with other arguments is
            unfinished, or all objects are skipped, so that nothing could be pasted from the bank.
        ValueError, OSError: an image cannot be read, or the disk cannot be written. Finished parts are kept.
        ImportError: the format or the engine needs a package that is not installed.
    """
    dataset = annotated(photos)
    depth_fill = depth_fill or dataset.depth_fill is True
    where = os.fspath(out) if is_url(out) else Path(local_path(out))
    _check(dataset, where, format, crop_size, margin_frac, workers, engine)
    run = Run(_work_folder(where, work_dir), BankError, other="work folder or output", again="call")
    _remove_finished(run, where, writer_options.get("storage_options"))
    check_free(where, writer_options.get("storage_options"))
    order, image_ids = _in_order(dataset)
    first = _first_of(dataset, order, skip_unreadable)
    if first is None:
        raise _nothing_kept(BuildSummary(str(where), len(order), (), {"unreadable": len(order)}))
    layout = Layout(crop_size, groups_for(dataset, first) if groups is None else groups, first.keypoint_schema)
    num_classes, flags = len(class_names), flags_of(first)
    fit = None if fit_into is None else checked_size("fit_into", fit_into)
    maker = PartMaker(
        dataset, order, layout, selection, margin_frac, num_classes, flags, run.notes, skip_unreadable, fit, depth_fill
    )
    options = {
        "margin_frac": margin_frac,
        **({} if fit is None else {"fit_into": list(fit)}),
        **({"depth_fill": True} if depth_fill else {}),
        **{name: getattr(selection, name) for name in Selection.__slots__},
        **(built_from or {}),
    }
    said = _said_of_bank(__version__, class_names, layout.crop_size, layout.groups, options)
    skips = {"skip_unreadable": True} if skip_unreadable else {}
    with run.claim({**_identity(image_ids, layout), **said, **skips, **(fingerprint or {})}):
        _make_missing(maker, workers, engine)
        summary = _summary(maker, str(where))
        if not summary.num_crops:
            run.remove()  # a build with other options needs other parts
            raise _nothing_kept(summary)
        writer = WRITERS[format](
            where,
            layout,
            class_names,
            build_seed=build_seed,
            metric_depth=first.metric_depth,
            built_from=options,
            **writer_options,
        )
        with naming(where), writer:
            summary = replace(summary, where=_write(maker, writer, summary.num_crops))
        run.remove()
    return summary


def _check(
    photos: AnnotatedDataset,
    out: str | Path,
    format: Format,
    crop_size: int | tuple[int, int],
    margin_frac: float,
    workers: int,
    engine: PartEngine,
) -> None:
    if format not in WRITERS:
        raise BankError(f"expected a format among {', '.join(WRITERS)}, got {format!r}")
    if engine not in ("local", "ray"):
        raise BankError(f"expected the engine local or ray, got {engine!r}")
    if is_url(out) and format != "webdataset":
        raise BankError(f"{out}: expected format webdataset for a URL, got {format!r}")
    if workers < 1 or not 0 <= margin_frac <= 10:
        raise BankError(f"expected workers >= 1 and margin_frac from 0 to 10, got {workers} and {margin_frac}")
    Layout(crop_size)
    if not len(photos):
        raise BankError("expected at least one image, got none")
    for module in (*_NEEDS.get(format, ()), *_NEEDS.get(engine, ())):
        require(module)


def _work_folder(out: str | Path, given: str | os.PathLike[str] | None) -> Path:
    """Return the folder of the parts: the same at each call, and not that of another build or of the bank."""
    if given is not None and is_url(given):
        raise BankError(f"{os.fspath(given)}: expected a work folder on a disk, got a URL; choose a path")
    work = None if given is None else Path(local_path(given)).absolute()
    if work is not None and work.exists() and not work.is_dir():
        raise BankError(f"{work}: expected a work folder, got a file; choose another path")
    if isinstance(out, str):
        digest = hashlib.sha256(out.encode()).hexdigest()
        return work or Path(tempfile.gettempdir()) / f"segpaste-{os.getuid()}-{digest[:16]}.parts"
    if work is None:
        return partial_of(out.absolute()).with_suffix(".parts")
    inner, outer = work.resolve(), out.resolve()
    if outer.is_relative_to(inner) or inner.is_relative_to(outer) or inner.is_relative_to(partial_of(outer)):
        raise BankError(
            f"{work}: expected a work folder that is neither inside nor a parent of {out}, the folder of the "
            "bank; choose another one"
        )
    return work


def _said_of_bank(
    version: str,
    class_names: Sequence[str],
    crop_size: Sequence[int],
    groups: Sequence[str],
    built_from: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the facts that are both in the fingerprint of a build and in the meta of its bank."""
    return {
        "segpaste": version,
        "class_names": hashlib.sha256("\n".join(class_names).encode()).hexdigest(),
        "crop_size": list(crop_size),
        "groups": list(groups),
        **built_from,
    }


def _remove_finished(run: Run, out: str | Path, storage_options: Mapping[str, Any] | None) -> None:
    """Remove the parts of a build that was killed after its bank was complete, before it removed them."""
    if not run.folder.is_dir() or (lock := lock_folder(run.folder)) is None:
        return
    try:
        meta = read_meta(folder_at(out, storage_options))
        there = read_fingerprint(run.folder)
        said = _said_of_bank(
            meta.segpaste_version, meta.class_names, (meta.crop_h, meta.crop_w), meta.groups, meta.built_from
        )
        if there is not None and all(there.get(key) == value for key, value in said.items()):
            run.remove()
            if not is_url(out):  # killed between its rename and its last step
                (Path(out) / MARKER).unlink(missing_ok=True)
        elif there is None:
            with suppress(OSError):  # if the folder is not empty
                run.folder.rmdir()
    except ValueError:  # there is no bank
        return
    finally:
        os.close(lock)


def _in_order(photos: AnnotatedDataset) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices of the images in the order of dataset and image id, [N], and their ids, [N] or [N, 2]."""
    num = len(photos)
    image_ids = np.fromiter((stored_id(photos.image_id(index), "image") for index in range(num)), np.int64, num)
    are_joined = photos.dataset_idx(0) is not None
    datasets = np.fromiter((photos.dataset_idx(index) or 0 for index in range(num)), np.int64, num)
    order = np.lexsort((image_ids, datasets))
    image_ids, datasets = image_ids[order], datasets[order]
    twice = np.flatnonzero((np.diff(image_ids) == 0) & (np.diff(datasets) == 0))
    if len(twice):
        raise BankError(f"expected unique image ids, got {image_ids[twice[0]]} twice; give each image its own")
    return order, np.stack([datasets, image_ids], 1) if are_joined else image_ids


def _first_of(photos: AnnotatedDataset, order: NDArray[np.int64], skip_unreadable: bool) -> DenseSample | None:
    """Return the first sample that can be read, None if none can; without ``skip_unreadable``, the first one."""
    if not skip_unreadable:
        return photos[int(order[0])]
    for index in order.tolist():
        with suppress(ValueError, OSError):
            return photos[index]
    return None


def _identity(image_ids: NDArray[np.int64], layout: Layout) -> dict[str, Any]:
    """Return the facts that identify a build, besides those that its bank states too."""
    digest = hashlib.sha256(image_ids.tobytes()).hexdigest()
    schema = {} if layout.keypoint_schema is None else {"keypoint_schema": repr(layout.keypoint_schema)}
    return {"image_ids": digest, "photos_per_part": PHOTOS_PER_PART, **schema}


def _make_missing(maker: PartMaker, workers: int, engine: PartEngine) -> None:
    missing = maker.missing()
    if not missing:
        return
    num_left = sum(len(maker.photos_of(part)) for part in missing)
    num_photos = len(maker.order)
    with _bar("photo", num_photos, num_photos - num_left) as advance:
        for part in make_parts(maker, missing, workers, engine, BankError):
            advance(len(maker.photos_of(part)))


def _summary(maker: PartMaker, where: str) -> BuildSummary:
    """Sum the counts of the parts."""
    kept: Counter[int] = Counter()
    skipped: Counter[str] = Counter()
    num_trimmed = 0
    for part in range(maker.num_parts):
        found = maker.found(part)
        num_trimmed += found["trimmed"]
        kept.update({int(class_id): num for class_id, num in found["kept"].items()})
        skipped.update(found["skipped"])
    counts = tuple(kept[class_id] for class_id in range(maker.num_classes))
    left_out = {reason: skipped[reason] for reason in REASONS}
    return BuildSummary(where, len(maker.order), counts, left_out, num_trimmed)


def _nothing_kept(summary: BuildSummary) -> BankError:
    """Return the error of a build without crops."""
    reasons = [reason for reason, num in summary.skipped.items() if num]
    counts = [f"{REASONS[reason]}: {summary.skipped[reason]}" for reason in reasons]
    remedies = [_REMEDIES[reason] for reason in reasons if reason in _REMEDIES]
    return BankError(
        f"{summary.where}: expected at least one object to cut out, since nothing can be pasted from an empty bank, "
        f"got none in {counted(summary.num_photos, 'image')} ({'; '.join(counts) or 'no annotation of an object'}); "
        f"{', or '.join(remedies) or 'check the annotations'}"
    )


def _write(maker: PartMaker, writer: FolderWriter, num_crops: int) -> str:
    """Write the records of the parts into the bank, in order, and return its folder or URL."""
    with _bar("crop", num_crops, 0) as advance:
        for part in range(maker.num_parts):
            for row in maker.rows(part):
                writer.add_row(row)
                advance(1)
    return str(writer.finish())


@contextmanager
def _bar(unit: str, total: int, initial: int) -> Iterator[Callable[[int], Any]]:
    """Show a progress bar on stderr; nothing if stderr is not a terminal."""
    from tqdm import tqdm

    is_quiet = None if total else True  # tqdm takes 0 for an unknown number
    with tqdm(total=total, initial=initial, unit=f" {unit}", disable=is_quiet, dynamic_ncols=True) as bar:
        yield bar.update
