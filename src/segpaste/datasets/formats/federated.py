"""Which classes were looked for in a photo: LVIS names those known to be absent and those only partly marked.

A loss or a metric takes a class that is in neither list, and has no instance, as unknown. A paste changes what is true:
see `FederatedLabels.with_pasted`. Source: Gupta, Dollár, Girshick, "LVIS: A Dataset for Large Vocabulary Instance
Segmentation", 2019, section 3.1, and https://www.lvisdataset.org.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from segpaste.types.movable import Movable


@dataclass(frozen=True, slots=True)
class FederatedLabels(Movable):
    """What one photo says about classes beside its instances.

    Attributes:
        positive: classes with an annotation in the photo, ascending.
        negative: classes verified to be absent, ascending.
        not_exhaustive: classes of which some objects may be unmarked, ascending.
    """

    positive: tuple[int, ...]
    negative: tuple[int, ...]
    not_exhaustive: tuple[int, ...]

    def with_pasted(self, pasted: Iterable[int], carried_along: Iterable[int] = ()) -> FederatedLabels:
        """What holds once objects of these classes were pasted into the photo.

        A class that was verified absent is now present and all of it is marked. A class that nobody looked for may
        have unmarked objects beside the pasted one: it becomes not exhaustive. A class that was present stays as it
        was. A class that lost its last instance is not called absent: pixels of it may be left.

        A pasted mask also takes along what lies over it, such as the hat of a person, without a row of its own. Its
        class is no longer absent, and not exhaustive.

        Args:
            pasted: the classes of the pasted objects, in any order.
            carried_along: classes that may have pixels inside the pasted masks.
        """
        new, along = set(pasted), set(carried_along)
        unknown = new - set(self.positive) - set(self.negative)
        return FederatedLabels(
            positive=tuple(sorted(new | set(self.positive))),
            negative=tuple(sorted(set(self.negative) - new - along)),
            not_exhaustive=tuple(sorted(unknown | along | set(self.not_exhaustive))),
        )
