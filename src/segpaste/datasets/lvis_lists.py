"""Federated labels: LVIS lists the classes known to be absent and the classes only partly annotated in an image.

A loss or a metric treats a class in neither list and without instances as unknown. A paste changes these lists, see
`FederatedLabels.with_pasted`. Source: Gupta, Dollár, Girshick, "LVIS: A Dataset for Large Vocabulary Instance
Segmentation", 2019, section 3.1, and https://www.lvisdataset.org.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from segpaste.types.movable import Movable


@dataclass(frozen=True, slots=True)
class FederatedLabels(Movable):
    """Annotated classes of an image.

    Attributes:
        positive: classes with an annotation in the image, ascending.
        negative: classes verified to be absent, ascending.
        not_exhaustive: classes with possibly unannotated objects, ascending.
    """

    positive: tuple[int, ...]
    negative: tuple[int, ...]
    not_exhaustive: tuple[int, ...]

    def with_pasted(self, pasted: Iterable[int], carried_along: Iterable[int] = ()) -> FederatedLabels:
        """Return the labels after objects of these classes were pasted into the image.

        A class that was verified absent becomes present and exhaustive. A class that was not annotated may have
        unannotated objects besides the pasted one, so it becomes not exhaustive. A class that was present does not
        change. A class that lost its last instance does not become absent, because fragments may remain.

        A pasted mask may contain other objects over it, such as the hat of a person, without an annotation. Their
        classes are not absent, and become not exhaustive.

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
