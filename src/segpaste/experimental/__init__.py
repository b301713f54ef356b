"""Names that may change in any release, without notice: a transform per sample, and what an own source is built from.

All names in `__all__` are for users, documented and tested; only their stability is not promised. Names that become
stable move to a stable module, and remain here as the same objects for one release line.
"""

from segpaste.augmentation.sources.strategies import LayerSources, draw_placement
from segpaste.experimental.copy_paste import CopyPaste

__all__ = ["CopyPaste", "LayerSources", "draw_placement"]
