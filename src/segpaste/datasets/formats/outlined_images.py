"""Dataset of a labelling tool: the samples of `segpaste.datasets.formats.outlined`."""

from __future__ import annotations

from segpaste.datasets.formats.instances import InstanceImages
from segpaste.datasets.formats.outlined import OutlinedAnnotations


class OutlinedImages(OutlinedAnnotations, InstanceImages):
    """Images with outlined objects, or with boxes only; see `OutlinedAnnotations` for the arguments."""
