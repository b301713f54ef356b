"""Interface between the preview page and a dataset: requests, configurations made of controls, and pasted images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.types import DenseSample
from segpaste.viz.report_html import PastedObject

LARGEST_SEED = (1 << 53) - 1
"""Largest seed of the page: a number that JavaScript holds exactly."""


class Problem(NamedTuple):
    """A single error in a request of the page.

    Attributes:
        key: key of the control beside which the error is shown; empty if it belongs to no control.
        text: message, one line.
    """

    key: str
    text: str


class RefusedError(ValueError):
    """Error for a request that cannot be drawn.

    Attributes:
        problems: all errors of the request.
    """

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(problem.text for problem in problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Draw:
    """A request to draw one image.

    Attributes:
        image: index of the image in the dataset.
        seed: seed of the draws.
        preset: name of the preset under the values; empty for none.
        values: values that differ from it, by dotted key; those of text controls are YAML.
    """

    image: int = 0
    seed: int = 0
    preset: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Pasted:
    """An image before and after a paste, with its report.

    Attributes:
        name: name of the image.
        before, after: the image before and after the paste; both have the same size.
        pasted: True for the instances of ``after`` that were pasted, [N] bool.
        class_names: class names of the dataset.
        objects: the pasted objects.
        counts_before, counts_after: instances of each class; with ClassMix of images without any, pixels.
        num_tried: number of pastes that were drawn.
        dropped: number of dropped pastes, by reason.
        advice: setting that helps, by reason.
        pasted_frac: fraction of the pixels that were pasted.
        note: remark to show under the image, or an empty text.
        lost: class of each object of ``before`` that is not in ``after``, with the reason.
        lost_advice: setting that helps, by reason of lost objects.
    """

    name: str
    before: DenseSample
    after: DenseSample
    pasted: Tensor
    class_names: Sequence[str]
    objects: Sequence[PastedObject]
    counts_before: Mapping[str, int]
    counts_after: Mapping[str, int]
    num_tried: int
    dropped: Mapping[str, int]
    advice: Mapping[str, str]
    pasted_frac: float
    note: str = ""
    lost: Sequence[tuple[str, str]] = ()
    lost_advice: Mapping[str, str] = field(default_factory=dict)


class PreviewSource(Protocol):
    """A dataset on the page.

    Attributes:
        name: name of the dataset.
        num_images: number of images to choose from.
        presets: summary of each preset, by name.
        start: first request of a new page.
        has_bank: True if objects come from a bank.
        is_panoptic: True if the dataset has things and stuff.
    """

    name: str
    num_images: int
    presets: Mapping[str, str]
    start: Draw
    has_bank: bool
    is_panoptic: bool

    def config(self, preset: str, values: Mapping[str, Any]) -> BatchCopyPasteConfig:
        """Return the configuration of a preset, or the defaults where it is empty, overridden by values.

        Raises:
            RefusedError: a value is invalid, or the values contradict each other.
        """
        ...

    def paste(self, draw: Draw, config: BatchCopyPasteConfig) -> Pasted:
        """Paste into an image.

        Raises:
            RefusedError: the image cannot be read, or the dataset lacks what the configuration asks for.
        """
        ...

    def command(self, draw: Draw) -> list[str]:
        """Return the words of a command that does the same, without the values that differ from the preset."""
        ...
