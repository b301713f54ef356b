"""What a preset is."""

from __future__ import annotations

from typing import Any

from pydantic import Field, PositiveFloat, PositiveInt, field_validator

from segpaste.augmentation import BatchCopyPasteConfig, PanopticConfig
from segpaste.augmentation.config.strict import Probability, SavedConfig, StrictConfig, merged
from segpaste.types import PanopticSchema


class LoaderOptions(StrictConfig):
    """The jitter of single photos before any is pasted: options of `segpaste.create_coco_dataloader`.

    Attributes:
        size: (H, W) of every sample, or the side of a square, pixels.
        scale_range: of large-scale jitter.
        hflip_prob: the probability of a mirrored photo.
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
    """A recipe with a name; it loads from and saves to YAML and JSON.

    Attributes:
        name: lower case words joined by underscores.
        summary: what it is for, one line.
        reproduces: what it follows, and where it differs.
        loader: what happens to each photo before.
        config: what a paste may do.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    summary: str
    reproduces: str = ""
    loader: LoaderOptions = LoaderOptions()
    config: BatchCopyPasteConfig = BatchCopyPasteConfig()

    def config_for(self, schema: PanopticSchema | None = None, **changes: Any) -> BatchCopyPasteConfig:
        """The configuration with a dataset's things and stuff, and with other values, nested as in YAML.

        Raises:
            ValueError: (pydantic's) an unknown key or value.
        """
        values = merged(self.config.model_dump(), changes)
        if schema is not None:
            taxonomy = PanopticConfig.model_validate({"taxonomy": schema}).taxonomy
            values["panoptic"] = {**dict(values["panoptic"] or {}), "taxonomy": taxonomy}
        return BatchCopyPasteConfig.model_validate(values)
