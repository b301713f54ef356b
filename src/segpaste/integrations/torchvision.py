"""Adapter for torchvision's detection models: batches as lists of images and targets, and back.

    for batch in BatchCopyPaste.from_dataloader(loader, max_instances=64):
        losses = model(*to_detection(batch, label_map=1))

The models expect images of any sizes in 0..1 and class ids from 1, since 0 is the background. They resize the images
themselves (``min_size``, 800 pixels by default), so a small canvas does not make a step small. They also normalise.
See https://docs.pytorch.org/vision/stable/models.html#object-detection-instance-segmentation-and-person-keypoint-detection
"""

from segpaste.targets.torchvision import from_detection, to_detection

__all__ = ["from_detection", "to_detection"]
