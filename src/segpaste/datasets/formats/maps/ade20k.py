"""Dataset of the full ADE20K, see `segpaste.datasets.formats.maps.formats`."""

from __future__ import annotations

from itertools import count, takewhile
from pathlib import Path

from segpaste.datasets.formats.folders import files_with
from segpaste.datasets.formats.maps.dataset import MapPhotos
from segpaste.datasets.formats.maps.decoding import ade20k_objects
from segpaste.datasets.formats.text_files import read_lines


class FullAde20kPhotos(MapPhotos):
    """Images of the full ADE20K, which know their files that are not read."""

    def unread(self, index: int) -> dict[str, int]:
        """Count these files, by what they say."""
        stem = self.path_of(index).with_suffix("")
        parts = takewhile(Path.is_file, (stem.with_name(f"{stem.name}_parts_{level}.png") for level in count(1)))
        return {
            **super().unread(index),
            "maps of parts of objects (NAME_parts_1.png)": len([*parts]),
            "masks of whole objects (NAME/*.png)": len(files_with(stem, ".png")),
            "objects with attributes (NAME.json, NAME_atr.txt)": self._num_with_attributes(stem),
        }

    def _num_with_attributes(self, stem: Path) -> int:
        try:
            return sum(bool(row.get("attributes")) for row in ade20k_objects(stem.with_name(f"{stem.name}.json")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            file = stem.with_name(f"{stem.name}_atr.txt")
            return (
                sum(line.rpartition("#")[2].strip(' \t"') != "" for line in read_lines(file)) if file.is_file() else 0
            )
