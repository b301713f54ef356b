"""The dataset of `segpaste preview`: what the page asks for, made as `segpaste augment` makes it.

The picture of an image and a seed is the one that `segpaste augment` writes with that seed, at the position where the
image stands when the dataset is gone through for the first time.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ValidationError

from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.augmentation.config.values import explained
from segpaste.augmenting import crops as _crops
from segpaste.augmenting import layouts as _layouts
from segpaste.augmenting import objects as _objects
from segpaste.augmenting import pages as _show
from segpaste.augmenting import pasting as _pasting
from segpaste.augmenting import planning as _planning
from segpaste.augmenting import settings as _settings
from segpaste.augmenting.advice import advice_of, lost_advice
from segpaste.augmenting.inputs import Inputs
from segpaste.augmenting.sequence import cut_to
from segpaste.augmenting.sources import photos_with_objects
from segpaste.bank import DatasetBank
from segpaste.cli._arguments import balance_of
from segpaste.cli._cached_samples import CachedSamples
from segpaste.cli._errors import CommandError
from segpaste.presets import get_preset, list_presets
from segpaste.viz import PastedObject
from segpaste.viz.preview.controls import controls_of, key_named
from segpaste.viz.preview.copies import differences, flow
from segpaste.viz.preview.preview_source import Draw, Pasted, Problem, RefusedError

_NEEDING = ("emit_depth", "emit_panoptic", "emit_classmix")
"""Keys of the configuration that not every dataset can serve."""


class DatasetStudio:
    """A dataset on the page; see `segpaste.viz.preview.preview_source.PreviewSource`.

    Args:
        args: options of the command.
        inputs: the dataset.

    Raises:
        CommandError: the configuration that is given is refused.
    """

    def __init__(self, args: argparse.Namespace, inputs: Inputs) -> None:
        self.args = args
        self.inputs = replace(inputs, photos=CachedSamples(inputs.photos))
        self.name, self.num_images = inputs.name, len(inputs.photos)
        self.has_bank, self.is_panoptic = args.bank is not None, inputs.schema is not None
        self.presets: Mapping[str, str] = {
            name: get_preset(name).summary for name in list_presets() if self._is_of_use(name)
        }
        if args.preset is not None and args.preset not in self.presets:
            self.presets = {args.preset: "as given to the command", **self.presets}
        self._controls = controls_of(has_bank=self.has_bank, is_panoptic=self.is_panoptic)
        self._eligible: dict[Any, NDArray[np.int64]] = {}
        self._objects: dict[Any, DatasetBank] = {}
        preset = args.preset or ""
        config = self._loaded(preset, args.overrides, args.config)
        changes = differences(config, self._loaded(preset, {}))
        self.resolved = _settings.resolved_lines(config, self.inputs.void_is_contour, self.inputs.fills_depth)
        self.start = Draw(seed=args.seed, preset=preset, values=changes)

    def config(self, preset: str, values: Mapping[str, Any]) -> BatchCopyPasteConfig:
        """Return the configuration of a preset with values over it."""
        tables = {control.key for control in self._controls if control.kind == "text"}
        words = {key: (value or "{}") if key in tables else flow(value) for key, value in values.items()}
        try:
            return self._loaded(preset, words)
        except CommandError as error:
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
        shown = _show.describe(augmented, self.inputs, self.inputs.photos.file_name(draw.image))
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
        args = self.args
        words = ["segpaste", "augment", *([] if args.dataset is None else [args.dataset])]
        named = ("images", "panoptic_dir", "backgrounds", "split", "task", "from_", "size", "bank")
        given = {name: getattr(args, name) for name in (*named, "balance", "threshold", "temperature")}
        for name, value in given.items():
            if value is not None:
                text = f"{value[1]}x{value[0]}" if isinstance(value, tuple) else str(value)
                words += [f"--{name.strip('_').replace('_', '-')}", text]
        words += ["--depth-fill"] if self.inputs.fills_depth else []
        words += ["--preset", draw.preset] if draw.preset else []
        return [*words, "--out", "augmented", "--num", str(self.num_images), "--seed", str(draw.seed)]

    def _expect_labels(self, config: BatchCopyPasteConfig) -> None:
        """Refuse a configuration that the dataset has no labels for, as `segpaste augment` does before its first image.

        Raises:
            CommandError, RefusedError: something is missing.
        """
        if any(getattr(config, key) for key in _NEEDING):
            _planning.expect_modalities(self.inputs, config, {key: key for key in _NEEDING}, (), False)
        _layouts.expect_region(self.inputs, config)
        try:
            _layouts.expect_masks(self.inputs, config)
        except (CommandError, SystemExit) as error:
            named = (key for key in ("source.mask_from", "emit_classmix") if f"{key}=" in str(error))
            raise RefusedError(Problem(next(named, ""), str(error))) from error

    @property
    def _is_scenes(self) -> bool:
        return bool(self.args.dataset == "scenes")

    def _is_of_use(self, preset: str) -> bool:
        """Return whether the preset works with this dataset, with or without its bank."""
        try:
            self._loaded(preset, {})
        except CommandError:
            return False
        return True

    def _loaded(self, preset: str, words: Mapping[str, str], path: str | None = None) -> BatchCopyPasteConfig:
        args, names = self.args, self.inputs.class_names
        balance = args.balance, args.threshold, args.temperature
        single = self.has_bank or any(value is not None for value in balance)
        schema = self.inputs.schema_of_objects(single=single)
        return _settings.load_config(
            path,
            words,
            schema,
            preset or None,
            of_bank=self.has_bank,
            every_image=True,
            class_names=names,
            cover_void=self.inputs.void_is_contour,
            fills_depth=self.inputs.fills_depth,
        )

    def _paster(self, draw: Draw, config: BatchCopyPasteConfig) -> _pasting.Paster:
        """Return the paster of a configuration. Lists that need a pass over the dataset are cached."""
        args, inputs = self.args, self.inputs
        is_balanced = any(value is not None for value in (args.balance, args.threshold, args.temperature))
        options: dict[str, Any] = {"jitter": _settings.jitter_of(args.dataset, args.size, draw.preset or None)}
        if args.bank is not None:
            options["crops"] = _crops.open_sequence(args.bank, inputs.class_names, draw.seed, **balance_of(args))
            return _pasting.Paster(inputs, config, draw.seed, **options)
        options["eligible"] = self._photos_with_objects(config)
        if _objects.draws_objects(inputs, config) and len(options["eligible"]):
            balance = balance_of(args) if is_balanced else _objects.default_balance(config)
            options["objects"] = _objects.sequence_of(self._objects_of(config), draw.seed, **balance)
        return _pasting.Paster(inputs, config, draw.seed, **options)

    def _photos_with_objects(self, config: BatchCopyPasteConfig) -> NDArray[np.int64]:
        key = config.emit_classmix, config.panoptic and config.panoptic.taxonomy
        if key not in self._eligible:
            self._eligible[key] = photos_with_objects(self.inputs, config)
        return self._eligible[key]

    def _objects_of(self, config: BatchCopyPasteConfig) -> DatasetBank:
        key = config.source.mask_from, config.source.whole_only
        if key not in self._objects:
            self._objects[key] = _objects.objects_of(self.inputs, config)
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
