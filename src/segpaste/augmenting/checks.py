"""Checks before images are made: that images can be read and have what a paste needs; and an estimate of the pastes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from segpaste._printable import class_lines
from segpaste._reprs import counted
from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.augmentation.config.base import merged
from segpaste.augmentation.prepare import GATES, modalities_of
from segpaste.augmenting.inputs import Inputs, has_objects
from segpaste.augmenting.options import AugmentError, NothingToPasteError, command, option
from segpaste.augmenting.pasting import Paster
from segpaste.augmenting.photos import PhotoPick
from segpaste.augmenting.summary import AugmentSummary
from segpaste.bank.building.listing import first_readable
from segpaste.datasets.formats.image_scan import ImageProblem, problem_lines, scan_images
from segpaste.types import Modality

if TYPE_CHECKING:
    from segpaste.augmenting.steps import StepMaker
    from segpaste.workspace import Content

_NUM_SHOWN = 20
_NUM_LOOKED_AT = 8
_NUM_TRIED = 16
"""Number of images that are made for an estimate."""


def unreadable_photos(inputs: Inputs, skips: bool, say: Callable[[str], object]) -> list[ImageProblem]:
    """Read the headers of all images, return those that cannot be read, and say a line about rotated ones.

    Raises:
        AugmentError: some cannot be read and ``skips`` is False, or none can be read.
    """
    scan = scan_images(inputs.photos)
    if (line := scan.orientation_line()) is not None:
        say(line)
    problems = scan.problems
    num, num_photos = len(problems), len(inputs.photos)
    if not problems:
        return []
    if num == num_photos:
        raise AugmentError(f"{problems[0]} (none of {counted(num_photos, 'image')} can be read)")
    if not skips:
        leave_out = option("skip_unreadable", True)
        hint = f"({num:,} of {counted(num_photos, 'image')} cannot be read; {leave_out} leaves them out)"
        if num == 1:
            raise AugmentError(f"{problems[0]} {hint}")
        details = list(problem_lines(problems, _NUM_SHOWN))
        raise AugmentError(f"{inputs.name}: expected images that can be read {hint}", details)
    return problems


def expect_modalities(
    inputs: Inputs, config: BatchCopyPasteConfig, asked: Mapping[str, str], skipped: Collection[int], skips: bool
) -> None:
    """Reject a configuration that needs modalities that the dataset does not have, judged by one of its images.

    Args:
        inputs: the dataset.
        config: config of the paste.
        asked: origin of each key of the configuration, such as an option.
        skipped: indices of images that are not read.
        skips: also skip images that cannot be read.

    Raises:
        AugmentError: a modality is missing.
        ValueError, OSError: an image cannot be read.
    """
    others = np.setdiff1d(np.arange(len(inputs.photos)), list(skipped))
    sample = first_readable(inputs.photos, others, {} if skips else None)
    keys = {**GATES, Modality.SEMANTIC: "emit_classmix"}
    missing = sorted(modalities_of(config)[0] - sample.modalities, key=lambda modality: modality.value)
    for modality in missing:
        has = ", ".join(sorted(own.value for own in sample.modalities))
        key = keys[modality]
        raise AugmentError(
            f"{asked.get(key, key)}: expected {modality.value} in {inputs.name}, got {has}; leave it out, or give a "
            f"dataset with {modality.value}"
        )


def expect_region(inputs: Inputs, config: BatchCopyPasteConfig) -> None:
    """Raise `AugmentError` if the configuration names regions of semantic maps and the dataset has no such maps."""
    if config.placement.region and not inputs.has_semantic_maps:
        raise AugmentError(
            f"placement.region: expected semantic maps in {inputs.name}, whose classes it names, got none; leave it "
            "out, or give a dataset with semantic maps"
        )


def expect_backgrounds(inputs: Inputs, config: BatchCopyPasteConfig) -> None:
    """Raise `AugmentError` if nothing could be pasted into backgrounds, because all of their pixels are void."""
    if inputs.backgrounds_are_void and not config.placement.cover_void:
        raise AugmentError(
            f"{option('backgrounds')}: expected placement.cover_void=true, got false: no class of the semantic maps of "
            f"{inputs.name} is background, so all pixels of the backgrounds are void; give placement.cover_void=true, "
            f"or leave {option('backgrounds')} out"
        )


def expect_masks(inputs: Inputs, config: BatchCopyPasteConfig) -> None:
    """Reject boxes or semantic maps without masks, unless the configuration says how they are pasted.

    Raises:
        AugmentError: nothing would be pasted.
        NothingToPasteError: there are no objects at all.
    """
    if not inputs.photos.has_masks and config.source.mask_from is None and not config.emit_classmix:
        if inputs.has_semantic_maps:
            if config.source.kind == "bank":
                raise AugmentError(
                    f"{inputs.name}: expected objects with masks in addition to the semantic maps, got maps only, into "
                    f"which a bank's objects cannot be pasted; leave {option('bank')} out and {_mixed(config)} "
                    "to paste classes of other images"
                )
            raise AugmentError(
                f"{inputs.name}: expected objects with masks, got semantic maps only; {_mixed(config)} to "
                "paste classes of other images"
            )
        if not has_objects(inputs.photos):
            raise NothingToPasteError(
                f"{inputs.name}: nothing to paste: expected objects, got a dataset without any (give "
                f"{_another(config)})"
            )
        raise AugmentError(
            f"{inputs.name}: expected masks, got boxes only, so nothing can be pasted; give source.mask_from=boxes or "
            "source.mask_from=ellipse to make masks of boxes, or make masks with "
            f"{command('convert', 'masks_from')}"
        )


def _mixed(config: BatchCopyPasteConfig) -> str:
    """Return what to write to mix classes: the key alone, if all else that is set goes with it."""
    without_bank = {"source": {"kind": "intra_batch"}} if config.source.kind == "bank" else {}
    if _is_valid(merged(config.model_dump(exclude_unset=True), {"emit_classmix": True, **without_bank})):
        return "give emit_classmix=true"
    return f"give {option('preset', 'classmix')} instead of the preset and the other keys of the paste"


def _another(config: BatchCopyPasteConfig) -> str:
    """Return what to give to a paste without objects: a bank only if all else that is set goes with it."""
    if config.source.kind == "bank" or _is_valid(
        merged({"source": {"kind": "bank"}}, config.model_dump(exclude_unset=True)), kind="bank"
    ):
        return f"{option('bank')}, or another dataset"
    return f"another dataset, or {option('bank')} without the preset and the keys that do not go with one"


def _is_valid(values: dict[str, Any], kind: str = "intra_batch") -> bool:
    """Return whether values make a configuration with this kind of source."""
    try:
        return BatchCopyPasteConfig.model_validate(values).source.kind == kind
    except ValueError:
        return False


def expect_objects(inputs: Inputs) -> None:
    """Raise `AugmentError` if no object with a mask can be cut out of a dataset."""
    if inputs.photos.has_masks:
        return
    found = "semantic maps" if inputs.has_semantic_maps else "boxes"
    if found == "boxes" and not has_objects(inputs.photos):
        raise AugmentError(f"{inputs.name}: expected objects with masks, got a dataset without any object")
    raise AugmentError(f"{inputs.name}: expected masks, got {found} only, from which no object can be cut out")


def expect_sources(paster: Paster) -> None:
    """Raise `NothingToPasteError` if the dataset has nothing to paste."""
    name, why = paster.inputs.name, ""
    if paster.has_any:
        if paster.crops is not None:
            return
        _expect_another_photo(paster)
        if paster.config.emit_classmix:
            return
        looked_at = paster.eligible[:_NUM_LOOKED_AT].tolist()
        picks = (PhotoPick(paster.sequence.pick(0).key, index) for index in looked_at)
        if paster.skips_unreadable or any(paster.reader.read(pick).sample.num_instances for pick in picks):
            return
        why = f"; the annotations of the first {counted(len(looked_at), 'image')} have no mask: are they boxes only?"
    raise NothingToPasteError(
        f"{name}: nothing to paste: expected objects with a mask, of thing classes, not crowds, got none{why} "
        f"(give {option('bank')}, or another dataset)"
    )


def _expect_another_photo(paster: Paster) -> None:
    """Raise `NothingToPasteError` if all objects are of one image, since an image is not pasted into itself."""
    num_photos = len(paster.inputs.photos) - len(paster.sequence.skipped)
    if num_photos > 1 or paster.config.source.kind == "same_image":
        return
    helps = "" if paster.config.emit_classmix else f"source.kind=same_image, {option('bank')}, or "
    raise NothingToPasteError(
        f"{paster.inputs.name}: nothing to paste: expected more than one image, since an image is not pasted into "
        f"itself, got one (give {helps}a larger dataset)"
    )


def estimate(maker: StepMaker) -> tuple[AugmentSummary, list[str]]:
    """Make the first images in memory; return their summary, and an estimate for all images as lines."""
    tally = AugmentSummary(
        state="estimated", config=maker.paster.config, has_jitter=maker.paster.reader.jitter is not None
    )
    num, sizes, num_bytes = min(maker.num, _NUM_TRIED), Counter[str](), 0

    def weigh(path: Path, content: Content) -> Path:
        nonlocal num_bytes
        num_bytes += len(content) if isinstance(content, bytes | bytearray) else sum(map(len, content))  # type: ignore
        return path

    writer = maker.writer()
    for position in range(num):
        item = maker.written(maker.paster.image(position), weigh, writer)
        tally.add(item["shown"])
        row = item["rows"]["image"]
        sizes[f"{row['width']} x {row['height']}"] += 1
    return tally, list(_estimated(maker, tally, sizes, num_bytes))


def _estimated(maker: StepMaker, tally: AugmentSummary, sizes: Counter[str], num_bytes: int) -> Iterator[str]:
    """Yield the estimate from the first images."""
    inputs, num = maker.paster.inputs, tally.num_images
    times = maker.num / num
    kept = f" and keep {counted(len(maker.originals), 'original')}" if maker.originals else ""
    would = f"would make {counted(maker.num, 'image')} of {inputs.name}{kept}"
    yield f"{would}; nothing is written. Estimate from the first {num}:"
    most = ", ".join(f"{size} ({count} of {num})" for size, count in sizes.most_common(3))
    yield f"sizes    {most}{', and others' if len(sizes) > 3 else ''}"
    yield f"sources  {_sources(maker)}"
    if tally.pasted_fracs and not tally.pasted:
        yield f"mixed    classes without objects into about {len(tally.pasted_fracs) * times:,.0f} images"
    else:
        yield (
            f"pastes   about {tally.pasted.total() * times:,.0f} of {tally.num_tried * times:,.0f} intended, into "
            f"{tally.num_pasted_into * times:,.0f} images"
        )
    expected = ((name, round(count * times)) for name, count in tally.pasted.items())
    yield from class_lines(expected, 24, 8)
    size, unit = (num_bytes * times / 1e6, "MB") if num_bytes * times >= 1e7 else (num_bytes * times / 1e3, "kB")
    yield f"disk     about {size:,.0f} {unit}"


def _sources(maker: StepMaker) -> str:
    paster = maker.paster
    if paster.crops is not None:
        return f"{counted(len(paster.crops.bank), 'crop')} of the bank"
    if paster.objects is not None:
        return f"{counted(len(paster.objects.bank), 'object')} of the dataset, drawn one by one"
    if paster.config.source.kind == "same_image":
        return f"each image itself, {counted(len(paster.eligible), 'image')} with objects"
    return f"{counted(len(paster.eligible), 'image')} with objects, one drawn for each target and layer"
