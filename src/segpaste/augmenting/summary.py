"""Summary of an augmented dataset: counts over all images, and advice on settings for what was not pasted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from segpaste._printable import printable
from segpaste._reprs import counted
from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.augmenting.options import option
from segpaste.datasets.writers.readback import Verified

if TYPE_CHECKING:
    from segpaste.datasets.checking.tools.starts import Start
    from segpaste.datasets.checking.tools.tool_report import ToolReport

_MAX_CLASSES = 12


@dataclass(slots=True)
class AugmentSummary:
    """Result of an augmentation: state of the new dataset, and counts over all its images.

    Attributes:
        out: folder of the dataset.
        state: ``made``: it is there; ``there``: an earlier run had finished it, so nothing was done and counted;
            ``waiting``: this shard is finished, others are not; ``estimated``: only the first images were made, in
            memory.
        waiting_for: what is missing if the state is ``waiting``.
        verified: what was read again.
        copied: names of the splits that were copied unchanged.
        num_copied: number of their files.
        config: config of the pastes.
        has_jitter: True if images are jittered to one size.
        num_images: number of images.
        num_originals: number of images of the dataset that were kept; no other count has them.
        num_pasted_into: number of images with a paste.
        num_instances: number of objects in the outputs, with those that have a box only.
        num_tried: number of pastes that were drawn.
        before: class name to number of objects before the pastes, with those that have a box only.
        pasted: class name to number of pastes in the outputs.
        after: class name to number of objects in the outputs.
        dropped: reason to number of dropped pastes.
        lost: class name to number of objects of the images that are not in the outputs.
        lost_reasons: reason to number of these instances.
        has_depth: True if an image has depth.
        num_made: number of images that this run made; others were there before.
        workers: number of processes that made them.
        pasted_fracs: pasted fraction of the pixels of each image with a paste but no pasted object, as with ClassMix.
        pixels_before, pixels_after: class name to pixels of semantic maps, if classes are mixed.
        without: main reason to number of images without a paste.
        unreadable: reasons why images could not be read, by index.
        left_out: number of entries of the dataset's tables, keys, maps and annotations that are not written, or not by
            the files of the layout, by description.
        for_tool: what the tool for which the dataset was made does to each of its splits; empty without one.
        start: how that tool is started, and what it lacks; None without one, or if that is up to the user's code.
    """

    out: Path = Path()
    state: Literal["made", "there", "waiting", "estimated"] = "made"
    waiting_for: str = ""
    verified: Verified = field(default_factory=Verified)
    copied: tuple[str, ...] = ()
    num_copied: int = 0
    config: BatchCopyPasteConfig = field(default_factory=BatchCopyPasteConfig)
    has_jitter: bool = False
    num_images: int = 0
    num_originals: int = 0
    num_pasted_into: int = 0
    num_instances: int = 0
    num_tried: int = 0
    before: Counter[str] = field(default_factory=Counter)
    pasted: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    lost_reasons: Counter[str] = field(default_factory=Counter)
    has_depth: bool = False
    num_made: int = 0
    workers: int = 1
    pasted_fracs: list[float] = field(default_factory=list)
    pixels_before: Counter[str] = field(default_factory=Counter)
    pixels_after: Counter[str] = field(default_factory=Counter)
    without: Counter[str] = field(default_factory=Counter)
    unreadable: dict[str, str] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    for_tool: tuple[ToolReport, ...] = ()
    start: Start | None = None

    def add(self, item: Mapping[str, Any]) -> None:
        """Count one image, given as the result of `segpaste.augmenting.report.describe`."""
        self.num_images += 1
        self.num_instances += item["num_instances"]
        self.num_tried += item["num_tried"]
        self.before.update(item["before"])
        self.after.update(item["after"])
        self.pasted.update(thing["class_name"] for thing in item["pasted"])
        self.dropped.update(item["dropped"])
        self.lost.update(name for name, _ in item.get("lost", ()))
        self.lost_reasons.update(reason for _, reason in item.get("lost", ()))
        self.has_depth |= item.get("has_depth", False)
        self.pixels_before.update(item.get("pixels_before", {}))
        self.pixels_after.update(item.get("pixels_after", {}))
        if item["pasted"]:
            self.num_pasted_into += 1
        elif item.get("pasted_frac"):
            self.pasted_fracs.append(item["pasted_frac"])
        else:
            ranked = sorted(item["dropped"].items(), key=lambda pair: (-pair[1], pair[0]))
            self.without[ranked[0][0].replace("_", " ") if ranked else nothing_drawn(self.config)] += 1

    @property
    def has_pastes(self) -> bool:
        """True if anything was pasted."""
        return bool(self.pasted.total() or self.pasted_fracs)

    @property
    def advice(self) -> Mapping[str, str]:
        """Advice for each reason of dropped pastes."""
        return advice_of(self.config, has_jitter=self.has_jitter, has_depth=self.has_depth)

    def headline(self) -> dict[str, object]:
        """Return the headline numbers of the report."""
        return {
            "images": self.num_images,
            "pasted into": self.num_pasted_into,
            "instances": self.num_instances,
            "pasted": self.pasted.total(),
            "tried": self.num_tried,
            "pasted per image": self.pasted.total() / max(1, self.num_images),
            "lost": self.lost.total(),
        }

    def lines(self) -> Iterator[str]:
        """Yield the lines of the printed summary."""
        if self.pasted or not self.pasted_fracs:
            yield (
                f"pasted   {self.pasted.total():,} of {self.num_tried:,} intended, into {self.num_pasted_into:,} of "
                f"{counted(self.num_images, 'image')}"
            )
        if fracs := self.pasted_fracs:
            yield (
                f"mixed    classes without objects into {len(fracs):,} of {counted(self.num_images, 'image')}, "
                f"{sum(fracs) / len(fracs):.0%} of their pixels"
            )
        if self.num_originals:
            yield f"kept     {self.num_originals:,} originals, unchanged"
        if self.without:
            yield f"without  a paste: {self.without.total():,} of {counted(self.num_images, 'image')}"
            for reason, count in _ranked(self.without):
                yield f"  {reason:<24} {count:>8,}"
        yield from self._class_lines()
        yield from self._pixel_lines()
        if self.dropped:
            yield f"dropped  {self.dropped.total():,} pastes that were intended"
            yield from _reason_lines(self.dropped, self.advice)
        if self.lost:
            total = self.before.total()
            lost = self.lost.total()
            yield f"lost     {lost:,} of {counted(total, 'object')} of the images ({lost / total:.1%})"
            yield from _reason_lines(self.lost_reasons, lost_advice(self.config))
        if self.unreadable:
            yield f"skipped  {counted(len(self.unreadable), 'image')} that cannot be read"
        yield from left_out_lines(self.left_out)

    def _class_lines(self) -> Iterator[str]:
        """Yield the numbers of instances of each class before, pasted, lost if there are any, and after."""
        if not (self.before or self.pasted or self.after):
            return
        names = sorted({*self.before, *self.pasted, *self.after}, key=lambda name: (-self.pasted[name], name))
        titled = {"before": self.before, "pasted": self.pasted, "lost": self.lost, "after": self.after}
        columns = [column for title, column in titled.items() if title != "lost" or column]
        titles = [title for title in titled if title != "lost" or self.lost]
        yield f"{'classes':<26} " + " ".join(f"{title:>8}" for title in titles)
        for name in names[:_MAX_CLASSES]:
            yield f"  {printable(name):<24} " + " ".join(f"{column[name]:>8,}" for column in columns)
        if rest := names[_MAX_CLASSES:]:
            sums = [sum(column[name] for name in rest) for column in columns]
            yield f"  {f'{len(rest)} more classes':<24} " + " ".join(f"{total:>8,}" for total in sums)

    def _pixel_lines(self) -> Iterator[str]:
        """Yield the shares of the pixels of each class before and after."""
        before, after = self.pixels_before, self.pixels_after
        if not before and not after:
            return
        names = sorted({*before, *after}, key=lambda name: (-after[name], name))
        yield f"{'classes, of all pixels':<26} {'before':>8} {'after':>8}"
        rest = names[_MAX_CLASSES:]
        for name in [*names[:_MAX_CLASSES], *([None] if rest else [])]:
            group = rest if name is None else [name]
            shares = (sum(column[n] for n in group) / max(1, column.total()) for column in (before, after))
            title = f"{len(rest)} more classes" if name is None else printable(name)
            yield f"  {title:<24} " + " ".join(f"{share:>8.2%}" for share in shares)


def left_out_lines(left_out: Counter[str]) -> Iterator[str]:
    """Yield the lines about entries, annotations, keys and maps that are not written."""
    if left_out:
        yield f"left out {left_out.total():,} entries, objects, keys or maps, which have no place or may mean others"
        for what, count in _ranked(left_out):
            yield f"  {printable(what):<72} {count:>8,}"


def _reason_lines(counts: Counter[str], advice: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each reason, with its number and what helps."""
    for reason, count in _ranked(counts):
        yield f"  {reason.replace('_', ' '):<24} {count:>8,}  {advice.get(reason, '')}".rstrip()


def _ranked(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


_WHOLE_ONLY = "objects cut by the border of their image are left out: source.whole_only=false"


def advice_of(config: BatchCopyPasteConfig, *, has_jitter: bool = False, has_depth: bool = False) -> Mapping[str, str]:
    """Return advice for each reason of `segpaste.augmentation.DROP_REASONS` that has any.

    Args:
        config: config of the run.
        has_jitter: True if images are jittered to one size.
        has_depth: True if images have depth.
    """
    panoptic = config.panoptic
    keeps = config.placement.position == "keep"
    scale = "" if keeps else ", or lower placement.scale_range"
    return {
        "no_source": _no_source(config, has_jitter),
        "no_free_slot": "raise max_instances"
        if panoptic is None
        else "raise max_instances, or max_instances_per_image of the taxonomy",
        "does_not_fit": _does_not_fit(config),
        "hidden": _hidden(config, has_depth),
        "reverted": "raise max_hidden_frac"
        if panoptic is None
        else "lower panoptic.tau_stuff_frac or panoptic.tau_stuff_px, or raise max_hidden_frac",
        "outside_region": "lower placement.region_frac"
        if keeps
        else "raise placement.max_attempts or placement.layers, or lower placement.region_frac",
        "too_small": "lower min_area_px" if keeps else "raise placement.scale_range, or lower min_area_px",
        "covers_too_much": f"raise placement.max_cover_frac{'' if keeps else ' or placement.max_attempts'}{scale}",
    }


def lost_advice(config: BatchCopyPasteConfig) -> Mapping[str, str]:
    """Return advice for each reason of `segpaste.augmentation.LOSS_REASONS`."""
    cover = config.placement.max_cover_frac
    settings = ["lower max_hidden_frac"] if config.max_hidden_frac else []
    settings += [] if config.emit_classmix else [f"{'set' if cover is None else 'lower'} placement.max_cover_frac"]
    of_originals = config.placement.originals.min_residual_area_px
    limits = {
        "min_residual_area_frac": config.min_residual_area_frac > 0,
        "placement.originals.min_residual_area_px": of_originals > 0,
        "min_area_px": config.min_area_px > 1,
    }
    raised = [name for name, is_raised in limits.items() if is_raised]
    lower = [f"lower {' or '.join(raised)}"] if raised else []
    return {"hidden": ", or ".join(settings), "too_small": ", or ".join([*lower, *settings])}


def nothing_drawn(config: BatchCopyPasteConfig) -> str:
    """Return the reason why no paste was drawn for an image, with the settings that may cause it."""
    place = config.placement
    settings = ["placement.paste_prob"] if place.paste_prob < 1 else []
    if not config.emit_classmix:
        settings += ["placement.k_range"] if place.k_range[0] == 0 else []
        settings += ["placement.originals.candidate_frac"] if place.originals.candidate_frac < 1 else []
    named = ", ".join(settings)
    return f"no paste was drawn ({named})" if named else "no paste was drawn"


def _hidden(config: BatchCopyPasteConfig, has_depth: bool) -> str:
    ranked = config.panoptic is not None and any(config.panoptic.contact_priority.values())
    kinds = ["nearer objects"] if has_depth else []
    kinds += ["objects of a higher panoptic.contact_priority"] if ranked else []
    return f"{' or '.join([*kinds, 'later pastes'])} hide them"


def _no_source(config: BatchCopyPasteConfig, has_jitter: bool) -> str:
    kind = config.source.kind
    if config.emit_classmix:
        return "no other image has a class that can be pasted"
    if kind == "bank":
        without = config.source.without_depth == "skip"
        return "give a bank with depth, or source.without_depth=invalid" if without else "crops without a pixel"
    where = "the image itself shows" if kind == "same_image" else "the drawn source images show"
    hints = [f"a smaller jitter keeps more: {option('size', 'own')}"] if has_jitter else []
    hints += [_WHOLE_ONLY] if config.source.whole_only and config.placement.position == "random" else []
    return "; ".join([f"{where} no object that may be pasted", *hints])


def _does_not_fit(config: BatchCopyPasteConfig) -> str:
    place, hints = config.placement, []
    if place.position == "random":
        hints += ["lower placement.scale_range", "raise placement.max_attempts"]
    if place.partial != "clip":
        hints += ["set placement.partial=clip"]
    elif place.min_visible_frac > 0:
        hints += ["lower placement.min_visible_frac"]
    if place.position == "keep" and config.source.whole_only:
        hints += [_WHOLE_ONLY]
    return ", or ".join(hints) or "their place is outside of the image"
