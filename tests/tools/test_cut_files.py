"""Files that are cut off: what is told names each once, and says what it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from probes import COCO, FILES, PROBES, write

from segpaste.datasets import DatasetError, check_dataset, convert_dataset, open_dataset


def cut(path: Path) -> None:
    """Remove the last bytes of a file."""
    path.write_bytes(path.read_bytes()[:-60])


def test_a_cut_panoptic_map_is_told_as_a_map(tmp_path: Path) -> None:
    write(PROBES["panoptic"]["ordinary"], "panoptic", tmp_path)
    cut(tmp_path / "panoptic" / "ordinary.png")
    dataset = open_dataset(tmp_path / FILES["panoptic"], images_dir=tmp_path / "images")
    (found,) = [found for found in check_dataset(dataset, decode=True).findings if found.kind == "broken_file"]
    assert "panoptic/ordinary.png: expected a panoptic map, could not decode it (" in found.message
    assert found.message.endswith("; replace the file")


def test_a_copied_image_that_is_cut_is_named_once(tmp_path: Path) -> None:
    write(COCO["ordinary"], "coco", tmp_path)
    cut(tmp_path / "images" / "ordinary.png")
    with pytest.raises(DatasetError, match="cannot be read, so their sources cannot: images/") as caught:
        convert_dataset(tmp_path / "instances.json", tmp_path / "out", to="coco", images_dir=tmp_path / "images")
    assert f"{caught.value}".count("ordinary.png") == 1
