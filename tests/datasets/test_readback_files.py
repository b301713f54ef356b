"""Verified writing: a fault in the content of a written file, planted after its writer, is found in any format."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conversion_world import SIZES, read_json, write_instances

from segpaste.cli import main
from segpaste.datasets import DatasetError, convert_dataset
from segpaste.datasets.writers import dataset_writer
from segpaste.workspace import WholeFiles

Change = Callable[[str], str]


def of_json(change: Callable[[Any], Any]) -> Change:
    """Change the document of a JSON file in place."""

    def call(text: str) -> str:
        document = json.loads(text)
        change(document)
        return json.dumps(document)

    return call


def of_regions(change: Callable[[Any], Any]) -> Change:
    """Change the crowd and ignored regions of a JSON file in place."""

    def every(document: Any) -> None:
        rows = [row for row in document["annotations"] if row.get("iscrowd") or row.get("ignore")]
        assert rows
        for row in rows:
            change(row)

    return of_json(every)


def of_each(table: str, change: Callable[[Any], Any]) -> Change:
    """Change the rows of a table of a JSON file in place."""
    return of_json(lambda document: [change(row) for row in document[table]])


def moved(row: Any) -> None:
    row["bbox"] = [row["bbox"][0] + 2, *row["bbox"][1:]]


def unlike(row: Any) -> None:
    row["segmentation"] = {"size": list(SIZES[0]), "counts": [40, 9, SIZES[0][0] * SIZES[0][1] - 49]}


def wider(row: Any) -> None:
    row["width"] += 7


def of_text(pattern: str, by: str) -> Change:
    def call(text: str) -> str:
        changed = re.sub(pattern, by, text)
        assert changed != text
        return changed

    return call


REGIONS: dict[str, Change] = {
    "region moved": of_regions(moved),
    "region of another box": of_regions(lambda row: row.update(bbox=[0, 0, 1, 1])),
    "region of another area": of_regions(lambda row: row.update(area=row["area"] + 1)),
    "region of another mask": of_regions(unlike),
    "ignored region as a crowd": of_regions(lambda row: row.pop("ignore", None)),
}
OF_JSON = r"/(annotations|instances_[^/]*|_annotations.coco|lvis_[^/]*|panoptic[^/]*)\.json$"
PLANTED: dict[str, tuple[str, str, Change]] = {
    **{f"coco: {name}": ("coco", OF_JSON, change) for name, change in REGIONS.items()},
    **{f"roboflow: {name}": ("roboflow", OF_JSON, change) for name, change in REGIONS.items()},
    **{
        f"{to}: width of an image": (to, OF_JSON, of_each("images", wider))
        for to in ("coco", "roboflow", "lvis", "coco-panoptic")
    },
}
AUGMENTED: dict[str, tuple[str, str, Change]] = {
    **{f"coco: {name}": ("coco", OF_JSON, change) for name, change in REGIONS.items()},
    **{
        f"{to}: width of an image": (to, OF_JSON, of_each("images", wider))
        for to in ("coco", "roboflow", "lvis", "yolo", "voc", "label-maps")
    },
}


def plant(monkeypatch: pytest.MonkeyPatch, pattern: str, change: Change) -> list[str]:
    """Change the text of files whose name has a pattern, as they are written; return their names."""
    found = list[str]()

    def changed(path: Path, content: Any) -> Any:
        if not re.search(pattern, path.as_posix()):
            return content
        found.append(path.name)
        return change((content if isinstance(content, bytes) else b"".join(content)).decode()).encode()

    for home, name in ((WholeFiles, "write"), (dataset_writer, "write_whole")):
        real = getattr(home, name)
        monkeypatch.setattr(home, name, lambda *args, real=real: real(*args[:-1], changed(Path(args[-2]), args[-1])))
    return found


def augment(dataset: tuple[Path, Path], layout: str, out: Path) -> int:
    images_dir, path = dataset
    words = ["augment", str(path), "--images", str(images_dir), "--num", "3", "--gallery", "0", "min_area_px=1"]
    return main([*words, "--layout", layout, "source.kind=same_image", "--out", str(out)])


@pytest.mark.filterwarnings("ignore::UserWarning")
class TestPlanted:
    @pytest.mark.parametrize("name", PLANTED)
    def test_a_conversion(self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        to, pattern, change = PLANTED[name]
        images_dir, path = write_instances(tmp_path)
        convert_dataset(path, tmp_path / "right", to, images_dir=images_dir)
        found = plant(monkeypatch, pattern, change)
        with pytest.raises(DatasetError, match="differs from what was read, so it is not published"):
            convert_dataset(path, tmp_path / "out", to, images_dir=images_dir)
        assert found
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize("name", AUGMENTED)
    def test_an_augmented_dataset(
        self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        layout, pattern, change = AUGMENTED[name]
        dataset = write_instances(tmp_path)
        found = plant(monkeypatch, pattern, change)
        assert augment(dataset, layout, tmp_path / "out") == 2
        assert found
        assert "differs from what was read" in capsys.readouterr().err
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize("given", [{}, {"segmentation": []}, {"segmentation": None}, {"bbox": None}])
    def test_regions_without_a_mask(self, given: dict[str, Any], tmp_path: Path) -> None:
        """What a writer completes is no fault."""
        images_dir, path = write_instances(tmp_path)
        document = read_json(path)
        for row in document["annotations"][-2:]:
            for key in ("segmentation", "area") if not given else given:
                row.pop(key)
            row |= given
        path.write_text(json.dumps(document))
        summary = convert_dataset(path, tmp_path / "out", "coco", images_dir=images_dir)
        assert summary.verified.images == 2
