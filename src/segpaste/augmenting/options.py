"""Options of augmented datasets: their limits, their names for both callers, and errors about them. Imports no torch.

Errors and advice name options as Python or as the command line spells them, which makes its own options from these.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from segpaste.augmentation import BatchCopyPasteConfig
    from segpaste.datasets.views import Samples

_FLAGS = {"images_dir": "--images", "format": "--from", "image_format": "--format"}
"""Options whose names on the command line are others than in Python."""
_is_command_line = False


class AugmentError(ValueError):
    """A request that cannot be fulfilled; the message says why and what to do.

    Attributes:
        details: further lines, such as one for each image that cannot be read.
    """

    def __init__(self, message: str, details: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.details = details


class NothingToPasteError(AugmentError):
    """A dataset without anything that could be pasted."""


def flag_of(name: str) -> str:
    """Return the name of an option on the command line."""
    return _FLAGS.get(name, f"--{name.replace('_', '-')}")


@contextlib.contextmanager
def command_line() -> Iterator[None]:
    """Spell options as flags, such as ``--num``, within the block."""
    global _is_command_line
    before, _is_command_line = _is_command_line, True
    try:
        yield
    finally:
        _is_command_line = before


def option(name: str, value: object = None) -> str:
    """Return an option as the caller writes it: ``num=3`` or ``--num 3``; without a value only its name."""
    if _is_command_line:
        flag = flag_of(name)
        return flag if value is None or value is True else f"{flag} {value}"
    return name if value is None else f"{name}={value!r}"


def command(name: str, *names: str, **options: object) -> str:
    """Return a call as the caller writes it: ``segpaste convert --to coco --split``, or ``segpaste.convert_dataset``.

    Args:
        name: the command.
        names: options without a value.
        options: options with their values.
    """
    given = [option(key, value) for key, value in options.items()]
    if _is_command_line:
        return " ".join([f"segpaste {name}", *given, *map(option, names)])
    return f"segpaste.{name}_dataset({', '.join(['...', *given, *(f'{key}=...' for key in names)])})"


MAX_SEED = (1 << 64) - 1

# The same as in `segpaste.datasets` and `segpaste.bank`, whose import takes seconds.
TASKS = ("detect", "segment", "pose")
WRITTEN_TASKS = (*TASKS, "obb")
LAYOUTS = ("coco", "coco-panoptic", "lvis", "roboflow", "yolo", "voc", "label-maps")
VERIFY = ("full", "sample", "off")
MODES = ("natural", "repeat_factor", "instance_aware", "tempered", "class_uniform")
DEFAULT_MODE, DEFAULT_TEMPERATURE = "repeat_factor", 0.5
_USED_BY = {"threshold": ("repeat_factor", "instance_aware"), "temperature": ("tempered",)}
SIDES_PX = (32, 4096)
MOST_SHARDS = 999

AnyPath = str | PathLike[str]
Size = tuple[int, int] | Literal["own"]
"""(height, width), pixels, or ``own``: images keep their size."""
Progress = Callable[[str, int, int], object]
"""Called with what is counted, such as ``image``, the number of finished ones, and of all."""
Task = Literal["detect", "segment", "pose", "obb"]


def _limited(default: Any = None, **limits: Any) -> Any:
    """Return a field with limits, see `expected`."""
    return field(default=default, metadata=limits)


def expected(limits: Mapping[str, Any]) -> str:
    """Return in words what an option with these limits takes."""
    if "choices" in limits:
        return ", ".join(limits["choices"])
    if "most" in limits:
        return f"a number {'above 0, up' if limits.get('is_above_zero') else 'from 0'} to {limits['most']}"
    if limits.get("high") is None:
        return f"an integer of at least {limits['low']}"
    return f"an integer from {limits['low']} to {limits['high']}"


def is_within(value: Any, limits: Mapping[str, Any]) -> bool:
    """Return whether a value is within limits."""
    if "choices" in limits:
        return value in limits["choices"]
    if isinstance(value, bool):
        return False
    if "most" in limits:
        is_number = isinstance(value, int | float)
        return is_number and 0 <= value <= limits["most"] and not (value == 0 and limits.get("is_above_zero"))
    return isinstance(value, int) and limits["low"] <= value <= limits.get("high", value)


@dataclass(frozen=True, kw_only=True)
class InputOptions:
    """The dataset that is read.

    Attributes:
        dataset: a folder or file of any format that can be read, ``scenes``, or a dataset of Python; None for
            backgrounds alone.
        images_dir: for an annotation file, the folder of the file names of the images.
        panoptic_dir: for panoptic segments, the folder of their PNG files.
        split: split of a folder; by default the one to train on.
        task: task of the labels; by default recognised from them.
        format: name of the dataset's format; by default recognised.
        backgrounds: folder of images without objects, which are pasted into as well.
        depth_fill: give holes in the depth of objects their nearest valid depth.
        bank: bank that objects are taken from.
    """

    dataset: AnyPath | Samples | None
    images_dir: AnyPath | None = None
    panoptic_dir: AnyPath | None = None
    split: str | None = None
    task: Task | None = _limited(choices=WRITTEN_TASKS)  # noqa: RUF009
    format: str | None = None
    backgrounds: AnyPath | None = None
    depth_fill: bool = False
    bank: AnyPath | None = None

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.metadata and value is not None and not is_within(value, entry.metadata):
                raise AugmentError(f"{option(entry.name)}: expected {expected(entry.metadata)}, got {value!r:.80}")


@dataclass(frozen=True, kw_only=True)
class PasteOptions(InputOptions):
    """How objects are pasted into the images of a dataset.

    Attributes:
        seed: seed of the draws.
        size: size to which every image is jittered; by default that of the preset, else images keep their size.
        preset: name of a preset, or a file of a saved one.
        config: paste configuration, or a file of one; it overrides the preset.
        overrides: values by dotted keys, such as ``placement.layers``, which override both; text is read as YAML.
        balance: how the classes of single objects are drawn.
        threshold: threshold of the repeat factors, a fraction.
        temperature: temperature of the balance ``tempered``, from 0 (natural) to 1 (uniform).
    """

    seed: int = _limited(0, low=0, high=MAX_SEED)
    size: Size | None = None
    preset: str | None = None
    config: AnyPath | BatchCopyPasteConfig | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    balance: str | None = _limited(choices=MODES)
    threshold: float | None = _limited(most=1, is_above_zero=True)
    temperature: float | None = _limited(most=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size is not None and self.size != "own":
            _expect_size(self.size)
        if self.bank is not None or self.balance is not None:
            self.balance_options()
        is_square = not isinstance(self.size, tuple) or self.size[0] == self.size[1]
        if self.dataset == "scenes" and not is_square:
            advice = option("size", "PX") if option("size").startswith("-") else "give (side, side)"
            raise AugmentError(
                f"{option('size')}: expected one side, because scenes are square, got two; write {advice}"
            )

    @property
    def is_balanced(self) -> bool:
        """True if the balance of the classes is given."""
        return any(value is not None for value in (self.balance, self.threshold, self.temperature))

    def balance_options(self) -> dict[str, Any]:
        """Return the options of `segpaste.bank.BankSampler`; see `balance_options`."""
        return balance_options(self.balance, self.threshold, self.temperature)


@dataclass(frozen=True, kw_only=True)
class AugmentOptions(PasteOptions):
    """An augmented dataset.

    Attributes:
        out: the new dataset's folder.
        num: number of images; image i does not depend on it.
        image_format: format of the images: ``png``, ``jpg``, or ``same``, JPEG for images that are read from a JPEG.
        layout: layout of the new dataset; by default that of the given one, else ``coco``.
        tool: name of a tool that will read the new dataset, see `segpaste.datasets.check_dataset`: the layout and the
            task are by default what it reads best, and the summary tells what it does to the dataset.
        keep_originals: write the images of the dataset, unchanged, after the augmented ones.
        gallery: number of images to draw.
        workers: number of processes; 0 and 1: this one.
        engine: engine that runs them.
        shard: (I, N), to make only shard I of N, from 1.
        verify: how the written files are read again.
        skip_unreadable: leave out images that cannot be read.
        dry_run: estimate the pastes, without writing anything.
    """

    out: AnyPath
    num: int = _limited(1, low=1)
    image_format: Literal["same", "png", "jpg"] = _limited("same", choices=("same", "png", "jpg"))
    layout: str | None = _limited(choices=LAYOUTS)
    tool: str | None = None
    keep_originals: bool = False
    gallery: int = _limited(12, low=0)
    workers: int = _limited(1, low=0, high=1024)
    engine: Literal["local", "ray"] = _limited("local", choices=("local", "ray"))
    shard: tuple[int, int] | None = None
    verify: Literal["full", "sample", "off"] = _limited("sample", choices=VERIFY)
    skip_unreadable: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shard is not None and not 1 <= self.shard[0] <= self.shard[1] <= MOST_SHARDS:
            raise AugmentError(f"shard: expected (I, N), shard I of N from 1 to {MOST_SHARDS}, got {self.shard!r}")


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(InputOptions):
    """A replay of records of an augmented dataset.

    Attributes:
        records: the file of the records, or its folder.
        out: folder to write the images and annotations to.
        check: augmented dataset to compare with instead.
        index: only the record at this index, from 0.
        image: only the image with this name.
        verify: how the written files are read again.
    """

    records: AnyPath
    out: AnyPath | None = None
    check: AnyPath | None = None
    index: int | None = _limited(low=0)
    image: str | None = None
    verify: Literal["full", "sample", "off"] = _limited("sample", choices=VERIFY)


def balance_options(balance: str | None, threshold: float | None, temperature: float | None) -> dict[str, Any]:
    """Return the arguments ``mode``, ``threshold`` and ``temperature`` of `segpaste.bank.BankSampler`.

    Raises:
        AugmentError: the mode does not have a given parameter.
    """
    mode = balance or DEFAULT_MODE
    given = {"threshold": threshold, "temperature": temperature}
    for name, modes in _USED_BY.items():
        if given[name] is not None and mode not in modes:
            wanted = " or ".join([option("balance", modes[0]), *modes[1:]])
            raise AugmentError(f"{option(name)}: expected {wanted} with this option, got {mode}; change one of them")
    return {"mode": mode, **given, "temperature": DEFAULT_TEMPERATURE if temperature is None else temperature}


def _expect_size(size: Any) -> None:
    low, high = SIDES_PX
    is_pair = isinstance(size, tuple) and len(size) == 2 and all(isinstance(side, int) for side in size)
    if not is_pair or not low <= min(size) <= max(size) <= high:
        raise AugmentError(
            f"size: expected (height, width), each an integer from {low} to {high}, or 'own', got {size!r}"
        )
