"""Adapter for Hugging Face transformers: batches as the inputs of DETR-like and of mask-classification models.

    model(**to_mask_labels(batch, mean=processor.image_mean, std=processor.image_std))

Paste first and normalise afterwards: harmonisation, value checks and uint8 banks expect colours before normalisation.
These functions therefore take the processor's mean and standard deviation, and the processor itself is not called.

Float images are checked: values that are negative, above ``scale``, NaN, or fractions of at most 1 with a ``scale`` of
255 raise a ValueError. Their minimum and maximum are read for it, which waits for their device; uint8 images are not
read.

``pixel_mask`` is 1 where a pixel belongs to the image: the inverse of our ``padding_mask``.
"""

from segpaste.integrations._huggingface.collator import CopyPasteCollator, with_copy_paste
from segpaste.integrations._huggingface.hub import HubSamples
from segpaste.targets.detr import to_detr
from segpaste.targets.mask_labels import to_mask_labels, to_oneformer

__all__ = ["CopyPasteCollator", "HubSamples", "to_detr", "to_mask_labels", "to_oneformer", "with_copy_paste"]
