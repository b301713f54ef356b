"""What a preset is."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from segpaste.augmentation import BatchCopyPasteConfig, PanopticConfig
from segpaste.augmentation.strict import Probability, SavedConfig, StrictConfig
from segpaste.types import PanopticSchema


class LoaderOptions(StrictConfig):
    """The jitter of single photos before any is pasted: options of `segpaste.create_coco_dataloader`.

    Attributes:
        size: (H, W) of every sample, or the side of a square, pixels.
        scale_range: of large-scale jitter.
        hflip_prob: the probability of a mirrored photo.
    """

    size: int | tuple[int, int] = 512
    scale_range: tuple[float, float] = (0.1, 2.0)
    hflip_prob: Probability = 0.5


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
        values = _merged(self.config.model_dump(), changes)
        if schema is not None:
            taxonomy = PanopticConfig.model_validate({"taxonomy": schema}).taxonomy
            values["panoptic"] = _merged({"taxonomy": taxonomy}, values["panoptic"] or {})
        return BatchCopyPasteConfig.model_validate(values)


def _merged(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """``changes`` over ``values``, level by level."""
    merged = dict(values)
    for key, value in changes.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged
