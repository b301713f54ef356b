"""Counts of pasted and dropped objects over all images, for the printed summary and the headline of the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from segpaste._printable import printable
from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.cli._advice import advice_of, nothing_drawn

_MAX_CLASSES = 12


@dataclass(slots=True)
class Tally:
    """Counts over all images.

    Attributes:
        config: config of the pastes.
        has_jitter: True if images are jittered to one size.
        num_images: number of images.
        num_pasted_into: number of images with a paste.
        num_instances: number of instances in the outputs.
        num_tried: number of pastes that were drawn.
        before: class name to number of instances before the pastes.
        pasted: class name to number of pastes in the outputs.
        after: class name to number of instances in the outputs.
        dropped: reason to number of dropped pastes.
        pasted_fracs: pasted fraction of the pixels of each image with a paste but no pasted object, as with ClassMix.
        pixels_before, pixels_after: class name to pixels of semantic maps, if classes are mixed.
        without: main reason to number of images without a paste.
        unreadable: reasons why images could not be read, by index.
    """

    config: BatchCopyPasteConfig = field(default_factory=BatchCopyPasteConfig)
    has_jitter: bool = False
    num_images: int = 0
    num_pasted_into: int = 0
    num_instances: int = 0
    num_tried: int = 0
    before: Counter[str] = field(default_factory=Counter)
    pasted: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    pasted_fracs: list[float] = field(default_factory=list)
    pixels_before: Counter[str] = field(default_factory=Counter)
    pixels_after: Counter[str] = field(default_factory=Counter)
    without: Counter[str] = field(default_factory=Counter)
    unreadable: dict[str, str] = field(default_factory=dict)

    def add(self, item: Mapping[str, Any]) -> None:
        """Count one image, given as the result of `segpaste.cli._show.describe`."""
        self.num_images += 1
        self.num_instances += item["num_instances"]
        self.num_tried += item["num_tried"]
        self.before.update(item["before"])
        self.after.update(item["after"])
        self.pasted.update(thing["class_name"] for thing in item["pasted"])
        self.dropped.update(item["dropped"])
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

    def headline(self) -> dict[str, object]:
        """Return the headline numbers of the report."""
        return {
            "images": self.num_images,
            "pasted into": self.num_pasted_into,
            "instances": self.num_instances,
            "pasted": self.pasted.total(),
            "tried": self.num_tried,
            "pasted per image": self.pasted.total() / max(1, self.num_images),
        }

    def lines(self) -> Iterator[str]:
        """Yield the lines of the printed summary."""
        if self.pasted or not self.pasted_fracs:
            yield (
                f"pasted   {self.pasted.total():,} of {self.num_tried:,} intended, into {self.num_pasted_into:,} of "
                f"{self.num_images:,} images"
            )
        if fracs := self.pasted_fracs:
            yield (
                f"mixed    classes without objects into {len(fracs):,} of {self.num_images:,} images, "
                f"{sum(fracs) / len(fracs):.0%} of their pixels"
            )
        if self.without:
            yield f"without  a paste: {self.without.total():,} of {self.num_images:,} images"
            for reason, count in _ranked(self.without):
                yield f"  {reason:<24} {count:>8,}"
        yield from self._class_lines()
        yield from self._pixel_lines()
        if self.dropped:
            advice = advice_of(self.config, has_jitter=self.has_jitter)
            yield f"dropped  {self.dropped.total():,} pastes that were intended"
            for reason, count in _ranked(self.dropped):
                yield f"  {reason.replace('_', ' '):<24} {count:>8,}  {advice.get(reason, '')}".rstrip()
        if self.unreadable:
            yield f"skipped  {len(self.unreadable):,} images that cannot be read"

    def _class_lines(self) -> Iterator[str]:
        """Yield the numbers of instances of each class before, pasted, and after."""
        if not (self.before or self.pasted or self.after):
            return
        names = sorted({*self.before, *self.pasted, *self.after}, key=lambda name: (-self.pasted[name], name))
        columns = self.before, self.pasted, self.after
        yield f"{'classes':<26} {'before':>8} {'pasted':>8} {'after':>8}"
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


def _ranked(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def print_summary(tally: Tally, seconds: float, pasting: tuple[int, float] | None = None) -> None:
    """Print the summary and the run time.

    Args:
        tally: counts over all images.
        seconds: time of the whole run.
        pasting: number of images and seconds spent in the augmentation itself, if this process made any.
    """
    print("\n".join(tally.lines()))
    if pasting is not None and pasting[1]:
        print(f"speed    {pasting[0] / pasting[1]:,.1f} images/s in the augmentation itself, on the CPU")
    print(f"time     {seconds:.1f} s in total")
