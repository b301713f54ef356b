"""Names that may change in any release, without notice: what a source of one's own is built from.

All that `__all__` lists here is for users, documented and tested; only its stability is not promised. Names that settle
move to a stable module and stay here as the same objects for one release line.
"""

from segpaste.augmentation.sources.placement import LayerSources, draw_placement

__all__ = ["LayerSources", "draw_placement"]
