"""Preset: a named recipe of a loader and a paste."""

from __future__ import annotations

from typing import Any

from pydantic import Field, PositiveFloat, PositiveInt, field_validator

from segpaste._reprs import changed_keys, described
from segpaste.augmentation import BatchCopyPasteConfig, PanopticConfig
from segpaste.augmentation.config.base import Probability, SavedConfig, StrictConfig, merged
from segpaste.types import PanopticSchema


class LoaderOptions(StrictConfig):
    """Jitter of single images before a paste: options of `segpaste.create_coco_dataloader`.

    Attributes:
        size: size (H, W) of every sample, or the side of a square, pixels.
        scale_range: range of the scale of large-scale jitter.
        hflip_prob: probability of flipping an image.
    """

    size: PositiveInt | tuple[PositiveInt, PositiveInt] = 512
    scale_range: tuple[PositiveFloat, PositiveFloat] = (0.1, 2.0)
    hflip_prob: Probability = 0.5

    @field_validator("scale_range")
    @classmethod
    def _check_scale_range(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not value[0] <= value[1]:
            raise ValueError(f"expected low <= high, got {value}")
        return value


class Preset(SavedConfig):
    """Recipe with a name; it can be loaded from and saved to YAML and JSON.

    Attributes:
        name: lower case words joined by underscores.
        summary: purpose, in one line.
        reproduces: reference that it follows, with the differences.
        loader: options of the loader.
        config: configuration of the paste.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    summary: str
    reproduces: str = ""
    loader: LoaderOptions = LoaderOptions()
    config: BatchCopyPasteConfig = BatchCopyPasteConfig()

    def __repr__(self) -> str:
        """Return the name, the purpose, and the keys that are not the defaults."""
        keys = lambda: ", ".join([*changed_keys(self.loader, prefix="loader."), *changed_keys(self.config)])  # noqa: E731
        return described(self, lambda: self.name, lambda: self.summary, keys)

    def config_for(self, schema: PanopticSchema | None = None, **changes: Any) -> BatchCopyPasteConfig:
        """Return the configuration with the things and stuff of a dataset, and with changed values, nested as in YAML.

        Raises:
            ValueError: (pydantic's) a key or value is unknown.
        """
        values = merged(self.config.model_dump(), changes)
        if schema is not None:
            taxonomy = PanopticConfig.model_validate({"taxonomy": schema}).taxonomy
            values["panoptic"] = {**dict(values["panoptic"] or {}), "taxonomy": taxonomy}
        return BatchCopyPasteConfig.model_validate(values)
