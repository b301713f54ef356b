"""Files of X-AnyLabeling and labelme as the tools write them: corners, rotated shapes, images inside, other JSON."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_files import BAR, ELL_POINTS, SIZE, SPOT, labelme_shape, photo, write_labelme

from segpaste import augment_dataset, convert_dataset, replay_dataset
from segpaste.datasets import DatasetError, check_dataset, find_dataset, open_dataset

OF_TOOLS = Path(__file__).parent / "of_tools"
CORNERS = [(4, 2), (16, 2), (16, 12), (4, 12)]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use another cache folder, where copies of images are."""
    monkeypatch.setenv("SEGPASTE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "images"


@pytest.fixture
def anylabeling(tmp_path: Path) -> Path:
    folder = tmp_path / "anylabeling"
    photo(folder / "a.png")
    shutil.copy(OF_TOOLS / "xanylabeling.json", folder / "a.json")
    return folder


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """A file of labelme without a file of its image."""
    folder = tmp_path / "inside"
    folder.mkdir()
    shutil.copy(OF_TOOLS / "labelme_image_inside.json", folder / "b.json")
    return folder


class TestAnyLabeling:
    def test_as_outlines(self, anylabeling: Path) -> None:
        with pytest.warns(UserWarning, match="1 point, 1 line, 1 linestrip without an area"):
            photos = open_dataset(anylabeling, task="segment")
        assert find_dataset(anylabeling).format.name == "labelme"
        sample = photos[0]
        y, x = np.indices(SIZE)
        np.testing.assert_array_equal(sample.instance_masks[0], BAR | SPOT)
        np.testing.assert_array_equal(sample.instance_masks[1], (x - 9.5) ** 2 + (y - 9.5) ** 2 <= 25)
        boxes = [row for row in photos.annotation_rows(0) if not row["segmentation"]]
        assert [row["bbox"] for row in boxes] == [[4, 2, 12, 10], [6, 2, 8, 8]]

    @pytest.mark.filterwarnings("ignore")
    def test_what_a_rotated_rectangle_says_is_kept(self, anylabeling: Path) -> None:
        photos = open_dataset(anylabeling, task="detect")
        upright, rotated = (row["attributes"] for row in photos.annotation_rows(0)[:2])
        assert not upright.keys() & {"points", "shape_type"}
        assert rotated["points"] == [[10, 2], [14, 6], [10, 10], [6, 6]]
        assert (rotated["shape_type"], rotated["direction"]) == ("rotation", 0.7853981633974483)

    @pytest.mark.filterwarnings("ignore")
    def test_nothing_is_lost_by_conversion(self, anylabeling: Path, tmp_path: Path) -> None:
        assert not convert_dataset(anylabeling, tmp_path / "out", "coco", task="segment").losses

    @pytest.mark.parametrize("kind", ["rectangle", "rotation", "oriented_rectangle", "quadrilateral"])
    def test_four_points(self, tmp_path: Path, kind: str) -> None:
        photos = open_dataset(write_labelme(tmp_path / kind, {"a": [labelme_shape("cup", CORNERS, kind)]}))
        assert photos[0].boxes.tolist() == [[4, 2, 16, 12]]
        assert photos.has_masks == (kind == "quadrilateral")

    def test_corners_of_a_tilted_rectangle_are_kept(self, tmp_path: Path) -> None:
        corners = [(10, 2), (14, 6), (10, 10), (6, 6)]
        photos = open_dataset(write_labelme(tmp_path / "in", {"a": [labelme_shape("cup", corners, "rectangle")]}))
        assert photos[0].boxes.tolist() == [[6, 2, 14, 10]]
        said = photos.annotation_rows(0)[0]["attributes"]
        assert (said["points"], said["shape_type"]) == ([list(map(float, point)) for point in corners], "rectangle")

    @pytest.mark.parametrize(("kind", "num"), [("rectangle", 3), ("rotation", 2), ("quadrilateral", 5), ("star", 4)])
    def test_other_numbers_of_points(self, tmp_path: Path, kind: str, num: int) -> None:
        folder = write_labelme(tmp_path / "in", {"a": [labelme_shape("cup", (CORNERS * 2)[:num], kind)]})
        with pytest.raises(DatasetError, match=rf"a\.json: shape 1: expected .*, got a {kind} of {num}; draw it as a"):
            open_dataset(folder)

    def test_a_cuboid_is_no_object(self, tmp_path: Path) -> None:
        cuboid = labelme_shape("cup", CORNERS * 2, "cuboid")
        folder = write_labelme(tmp_path / "in", {"a": [cuboid, labelme_shape("cup", ELL_POINTS)]})
        with pytest.warns(UserWarning, match="1 cuboid without an area"):
            photos = open_dataset(folder)
        assert photos.image_row(0)["shapes"] == [cuboid]

    @pytest.mark.parametrize(("groups", "num"), [((1.0, 1), 1), ((1.0, 2.0), 2)])
    def test_groups_as_decimals(self, tmp_path: Path, groups: tuple[float, float], num: int) -> None:
        shapes = [labelme_shape("cup", points, group_id=group) for points, group in zip(PARTS, groups, strict=True)]
        assert len(open_dataset(write_labelme(tmp_path / "in", {"a": shapes})).annotation_rows(0)) == num

    @pytest.mark.parametrize("group", [1.5, [], {}])
    def test_other_groups(self, tmp_path: Path, group: Any) -> None:
        folder = write_labelme(tmp_path / "in", {"a": [labelme_shape("cup", ELL_POINTS, group_id=group)]})
        with pytest.raises(DatasetError, match="shape 1: expected a number as 'group_id'"):
            open_dataset(folder)


PARTS = (ELL_POINTS, CORNERS)


class TestImagesInside:
    def test_is_read_from_a_copy(self, inside: Path, cache: Path) -> None:
        photos = open_dataset(inside, task="segment")
        sample = photos[0]
        assert photos.file_name(0) == "b.png"
        assert sample.image[0].tolist() == [[0] * 6, [0, 0, 200, 200, 200, 0], [0, 0, 200, 200, 200, 0], [0] * 6]
        assert [path.name for path in inside.iterdir()] == ["b.json"]
        assert photos.path_of(0).parent.parent == cache
        assert not [found for found in check_dataset(photos).findings if found.severity == "error"]

    def test_a_damaged_copy_is_replaced(self, inside: Path) -> None:
        path = open_dataset(inside, task="segment").path_of(0)
        path.write_bytes(path.read_bytes()[:-20] + bytes(20))
        open_dataset(inside, task="segment")[0]

    def test_workers_find_it(self, inside: Path) -> None:
        photos = open_dataset(inside, task="segment")
        path = photos.path_of(0)
        pickled = pickle.dumps(photos)
        path.unlink()
        assert pickle.loads(pickled)[0].canvas_size == (4, 6)

    def test_a_file_beside_it_is_read_instead(self, inside: Path, cache: Path) -> None:
        photo(inside / "b.png", size=(4, 6))
        photos = open_dataset(inside, task="segment")
        assert photos.path_of(0) == inside / "b.png"
        assert not cache.exists()

    def test_its_suffix_is_that_of_its_format(self, inside: Path) -> None:
        file = inside / "b.json"
        file.write_text(file.read_text().replace("b.png", "b.tif"))
        assert open_dataset(inside, task="segment").file_name(0) == "b.png"

    def test_several_are_no_strays_of_each_other(self, inside: Path) -> None:
        other = json.loads((inside / "b.json").read_text()) | {"imagePath": "c.png"}
        (inside / "c.json").write_text(json.dumps(other))
        photos = open_dataset(inside, task="segment")
        assert (len(photos), dict(photos.unread_paths())) == (2, {})

    def test_is_converted_and_augmented(self, inside: Path, tmp_path: Path) -> None:
        for number, name in enumerate("cdef"):
            other = json.loads((inside / "b.json").read_text()) | {"imagePath": f"{name}.png", "number": number}
            (inside / f"{name}.json").write_text(json.dumps(other))
        assert not convert_dataset(inside, tmp_path / "coco", "coco", task="segment").losses
        assert (tmp_path / "coco/images/b.png").is_file()
        augment_dataset(inside, tmp_path / "out", num=2, task="segment", gallery=0)
        assert replay_dataset(tmp_path / "out", inside, task="segment", check=tmp_path / "out").is_identical

    @pytest.mark.parametrize(
        ("content", "message"), [("@@", "an image in base64"), ("aGVsbG8=", "other content"), (3, "an image in base64")]
    )
    def test_what_is_no_image(self, inside: Path, content: Any, message: str) -> None:
        document = json.loads((inside / "b.json").read_text())
        (inside / "b.json").write_text(json.dumps(document | {"imageData": content}))
        with pytest.raises(DatasetError, match=rf"b\.json: expected .*{message}.*; save it again"):
            open_dataset(inside)

    def test_a_cache_that_cannot_be_written(self, inside: Path, tmp_path: Path) -> None:
        (tmp_path / "cache").write_text("a file")
        with pytest.raises(DatasetError, match="set SEGPASTE_CACHE to another folder, or save the images beside"):
            open_dataset(inside)


class TestOtherJson:
    @pytest.mark.parametrize("name", ["_info.json", "notes.json"])
    @pytest.mark.parametrize("content", [{"who": "me"}, [1, 2], None])
    def test_is_named_and_not_read(self, tmp_path: Path, name: str, content: Any) -> None:
        folder = write_labelme(tmp_path / "in")
        wanted = open_dataset(folder).digest
        (folder / name).write_text(json.dumps(content))
        with pytest.warns(UserWarning, match=f"1 JSON files without shapes of labelme are not read: {name}"):
            photos = open_dataset(folder)
        assert (len(photos), photos.digest) == (3, wanted)
        findings = [found for found in check_dataset(photos).findings if found.kind == "stray_labels"]
        assert [Path(found.file or "").name for found in findings] == [name]

    @pytest.mark.filterwarnings("ignore:.*JSON files without shapes")
    def test_is_a_loss(self, tmp_path: Path) -> None:
        folder = write_labelme(tmp_path / "in")
        (folder / "notes.json").write_text("{}")
        losses = convert_dataset(folder, tmp_path / "out", "coco").losses
        assert losses == {"JSON files without shapes of labelme": 1}

    def test_a_folder_of_others_is_none_of_labelme(self, tmp_path: Path) -> None:
        photo(tmp_path / "in" / "a.png")
        (tmp_path / "in" / "a.json").write_text('{"who": "me"}')
        with pytest.raises(DatasetError, match="expected a dataset of one of the formats"):
            find_dataset(tmp_path / "in")

    def test_a_broken_one_is_an_error(self, tmp_path: Path) -> None:
        folder = write_labelme(tmp_path / "in")
        (folder / "notes.json").write_text("{")
        with pytest.raises(DatasetError, match=r"notes\.json: expected JSON"):
            open_dataset(folder)
