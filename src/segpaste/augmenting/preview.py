"""The dataset of `segpaste preview`: what the page asks for, made as `segpaste augment` makes it.

The picture of an image and a seed is the one that `segpaste augment` writes with that seed, at the position where the
image stands when the dataset is gone through for the first time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from torch import Tensor

from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.augmentation.config.values import explained
from segpaste.augmenting.checks import expect_backgrounds, expect_masks, expect_modalities, expect_region
from segpaste.augmenting.draws import default_balance, draws_objects, objects_of, open_sequence, sequence_of
from segpaste.augmenting.inputs import Inputs
from segpaste.augmenting.options import AnyPath, PasteOptions, flag_of
from segpaste.augmenting.pasting import Paster
from segpaste.augmenting.photos import cut_to
from segpaste.augmenting.report import describe, with_crowds
from segpaste.augmenting.settings import jitter_of, load_config, resolved_lines
from segpaste.augmenting.sources import photos_with_objects
from segpaste.augmenting.summary import advice_of, lost_advice
from segpaste.bank import DatasetBank
from segpaste.datasets.contract import AnnotatedDataset, DatasetWrapper
from segpaste.datasets.writers.dataset_writer import crowds_left
from segpaste.presets import get_preset, list_presets
from segpaste.types import DenseSample
from segpaste.viz import PastedObject
from segpaste.viz.preview.controls import controls_of, differences, flow, key_named
from segpaste.viz.preview.preview_source import Draw, Pasted, Problem, RefusedError

_NEEDING = ("emit_depth", "emit_panoptic", "emit_classmix")
"""Keys of the configuration that not every dataset can serve."""

_MOST_BYTES = 512 << 20


class DatasetStudio:
    """A dataset on the page; see `segpaste.viz.preview.preview_source.PreviewSource`.

    Args:
        options: the dataset and the first options of the paste.
        inputs: the dataset.

    Raises:
        ValueError: the configuration that is given is refused.
    """

    def __init__(self, options: PasteOptions, inputs: Inputs) -> None:
        self.options = options
        self.inputs = replace(inputs, photos=CachedSamples(inputs.photos))
        self.name, self.num_images = inputs.name, len(inputs.photos)
        self.has_bank, self.is_panoptic = options.bank is not None, inputs.schema is not None
        self.presets: Mapping[str, str] = {
            name: get_preset(name).summary for name in list_presets() if self._is_of_use(name)
        }
        if options.preset is not None and options.preset not in self.presets:
            self.presets = {options.preset: "as given to the command", **self.presets}
        self._controls = controls_of(has_bank=self.has_bank, is_panoptic=self.is_panoptic)
        self._eligible: dict[Any, NDArray[np.int64]] = {}
        self._objects: dict[Any, DatasetBank] = {}
        preset = options.preset or ""
        config = self._loaded(preset, options.overrides, options.config)
        changes = differences(config, self._loaded(preset, {}))
        if options.bank is not None:  # so that a bank that cannot be used is an error before the page is served
            open_sequence(options.bank, inputs.class_names, options.seed, **options.balance_options())
        self.resolved = resolved_lines(config, self.inputs.void_is_contour, self.inputs.fills_depth)
        self.start = Draw(seed=options.seed, preset=preset, values=changes)

    def config(self, preset: str, values: Mapping[str, Any]) -> BatchCopyPasteConfig:
        """Return the configuration of a preset with values over it."""
        tables = {control.key for control in self._controls if control.kind == "text"}
        words = {key: (value or "{}") if key in tables else flow(value) for key, value in values.items()}
        try:
            return self._loaded(preset, words)
        except ValueError as error:
            raise _refused(error) from error

    def paste(self, draw: Draw, config: BatchCopyPasteConfig) -> Pasted:
        """Paste into an image, as `segpaste augment` does with these options."""
        try:
            self._expect_labels(config)
            paster = self._paster(draw, config)
            position = paster.sequence.position_of(draw.image)
            augmented = paster.image(position)
            before = cut_to(paster.target(position).sample, augmented.after.canvas_size)
        except RefusedError:
            raise
        except (ValueError, OSError) as error:
            raise _refused(error) from error
        except MemoryError as error:
            raise _out_of_memory(config) from error
        crowds = paster.reader.crowds(augmented.pick)
        left = [crowd for crowd, _ in crowds_left(augmented.after, [(crowd, {}) for crowd in crowds])]
        shown = describe(augmented, self.inputs, self.inputs.photos.file_name(draw.image))
        shown = with_crowds(shown, self.inputs.class_names, crowds, left)
        is_classes = bool(shown["before"] or shown["after"])
        return Pasted(
            shown["name"],
            before,
            augmented.after,
            torch.tensor([origin.paste is not None for origin in augmented.origins], dtype=torch.bool, device="cpu"),
            self.inputs.class_names,
            [PastedObject(**thing) for thing in shown["pasted"]],
            shown["before" if is_classes else "pixels_before"],
            shown["after" if is_classes else "pixels_after"],
            augmented.num_tried,
            augmented.dropped,
            advice_of(config, has_jitter=paster.reader.jitter is not None, has_depth=shown["has_depth"]),
            augmented.pasted_frac,
            "" if self._is_scenes else f"{position + 1:06d}.png of the command below",
            shown["lost"],
            lost_advice(config),
        )

    def command(self, draw: Draw) -> list[str]:
        """Return the words of the `segpaste augment` that does the same."""
        options = self.options
        words = ["segpaste", "augment", *([] if options.dataset is None else [str(options.dataset)])]
        named = ("images_dir", "panoptic_dir", "backgrounds", "split", "task", "format", "size", "bank")
        for name in (*named, "balance", "threshold", "temperature"):
            if (value := getattr(options, name)) is not None:
                text = f"{value[1]}x{value[0]}" if isinstance(value, tuple) else str(value)
                words += [flag_of(name), text]
        words += ["--depth-fill"] if self.inputs.fills_depth else []
        words += ["--preset", draw.preset] if draw.preset else []
        return [*words, "--out", "augmented", "--num", str(self.num_images), "--seed", str(draw.seed)]

    def _expect_labels(self, config: BatchCopyPasteConfig) -> None:
        """Refuse a configuration that the dataset has no labels for, as `segpaste augment` does before its first image.

        Raises:
            ValueError: something is missing.
        """
        if any(getattr(config, key) for key in _NEEDING):
            expect_modalities(self.inputs, config, {key: key for key in _NEEDING}, (), False)
        expect_region(self.inputs, config)
        expect_backgrounds(self.inputs, config)
        try:
            expect_masks(self.inputs, config)
        except ValueError as error:
            named = (key for key in ("source.mask_from", "emit_classmix") if f"{key}=" in str(error))
            raise RefusedError(Problem(next(named, ""), str(error))) from error

    @property
    def _is_scenes(self) -> bool:
        return bool(self.options.dataset == "scenes")

    def _is_of_use(self, preset: str) -> bool:
        """Return whether the preset works with this dataset, with or without its bank."""
        try:
            self._loaded(preset, {})
        except ValueError:
            return False
        return True

    def _loaded(
        self, preset: str, words: Mapping[str, Any], path: AnyPath | BatchCopyPasteConfig | None = None
    ) -> BatchCopyPasteConfig:
        schema = self.inputs.schema_of_objects(single=self.has_bank or self.options.is_balanced)
        return load_config(
            path,
            words,
            schema,
            preset or None,
            of_bank=self.has_bank,
            every_image=True,
            class_names=self.inputs.class_names,
            cover_void=self.inputs.void_is_contour,
            fills_depth=self.inputs.fills_depth,
        )

    def _paster(self, draw: Draw, config: BatchCopyPasteConfig) -> Paster:
        """Return the paster of a configuration. Lists that need a pass over the dataset are cached."""
        options, inputs = self.options, self.inputs
        further: dict[str, Any] = {"jitter": jitter_of(options.dataset, options.size, draw.preset or None)}
        if options.bank is not None:
            further["crops"] = open_sequence(options.bank, inputs.class_names, draw.seed, **options.balance_options())
            return Paster(inputs, config, draw.seed, **further)
        further["eligible"] = self._photos_with_objects(config)
        if draws_objects(inputs, config) and len(further["eligible"]):
            balance = options.balance_options() if options.is_balanced else default_balance(config)
            further["objects"] = sequence_of(self._bank_of(config), draw.seed, **balance)
        return Paster(inputs, config, draw.seed, **further)

    def _photos_with_objects(self, config: BatchCopyPasteConfig) -> NDArray[np.int64]:
        key = config.emit_classmix, config.panoptic and config.panoptic.taxonomy
        if key not in self._eligible:
            self._eligible[key] = photos_with_objects(self.inputs, config)
        return self._eligible[key]

    def _bank_of(self, config: BatchCopyPasteConfig) -> DatasetBank:
        key = config.source.mask_from, config.source.whole_only
        if key not in self._objects:
            self._objects[key] = objects_of(self.inputs, config)
        return self._objects[key]


def _refused(error: Exception) -> RefusedError:
    """Return what is wrong, each beside the control that it is about."""
    if isinstance(cause := error.__cause__, ValidationError):
        found = [
            (explained(item, BatchCopyPasteConfig), [str(part) for part in item["loc"]]) for item in cause.errors()
        ]
    else:
        found = [(str(error).removeprefix("BatchCopyPaste: "), [])]
    problems = dict.fromkeys(Problem(key_named(text, place), _without_group(text, place)) for text, place in found)
    return RefusedError(*problems)


def _out_of_memory(config: BatchCopyPasteConfig) -> RefusedError:
    """Return the error for an image that takes more memory than there is; masks of many slots take most."""
    if (num := config.max_instances) is None:
        return RefusedError(Problem("", "expected an image that fits into memory, got a larger one; use --size"))
    text = f"expected as many slots as fit into memory, a mask of the image's size each, got {num}; use fewer"
    return RefusedError(Problem("max_instances", f"max_instances: {text}"))


def _without_group(text: str, place: Sequence[str]) -> str:
    """Return an error of several fields of a group without the group's name before theirs."""
    is_group = ".".join(place) in BatchCopyPasteConfig.model_fields and text.count(": ") > 1
    return text.removeprefix(f"{place[0]}: ") if is_group else text


class CachedSamples(DatasetWrapper):
    """A dataset that keeps the samples that were read last, up to a number of bytes, and at least one."""

    def __init__(self, dataset: AnnotatedDataset, most_bytes: int = _MOST_BYTES) -> None:
        super().__init__(dataset)
        self.most_bytes = most_bytes
        self._samples: OrderedDict[int, tuple[DenseSample, int]] = OrderedDict()

    def __getitem__(self, index: int) -> DenseSample:
        if index not in self._samples:
            sample = self.dataset[index]
            self._samples[index] = sample, _num_bytes(sample)
            while len(self._samples) > 1 and sum(size for _, size in self._samples.values()) > self.most_bytes:
                self._samples.popitem(last=False)
        self._samples.move_to_end(index)
        return deepcopy(self._samples[index][0])  # pastes may work in place


def _num_bytes(sample: DenseSample) -> int:
    values = (getattr(sample, name) for name in DenseSample.__dataclass_fields__)
    return sum(value.numel() * value.element_size() for value in values if isinstance(value, Tensor))
