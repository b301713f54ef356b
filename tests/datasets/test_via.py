"""VGG Image Annotator: shapes, the attribute that is the class, JSON and CSV, places of images, broken files."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_files import (
    BAR,
    BAR_BOX,
    BAR_POINTS,
    ELL,
    ELL_POINTS,
    SIZE,
    photo,
    via_csv,
    via_entries,
    via_polygon,
    via_region,
    write_via,
)

from segpaste.cli import main
from segpaste.datasets import DatasetError, check_dataset, convert_dataset, find_dataset, open_dataset

CUP = {"class": "cup"}
ELL_CUP = via_polygon(ELL_POINTS, CUP)


def one(folder: Path, *regions: Any, **options: Any) -> Any:
    folder.mkdir(exist_ok=True)
    return open_dataset(write_via(folder, {"a": list(regions)}), **options)


def rewrite(path: Path, change: Any) -> Path:
    """Change the document of a file."""
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    return path


class TestShapes:
    def test_points_are_pixel_edges(self, tmp_path: Path) -> None:
        np.testing.assert_array_equal(one(tmp_path, ELL_CUP)[0].instance_masks, [ELL])

    def test_circle(self, tmp_path: Path) -> None:
        """A pixel belongs to it if its centre does."""
        sample = one(tmp_path, via_region("circle", CUP, cx=10, cy=10, r=5.5))[0]
        y, x = np.indices(SIZE)
        np.testing.assert_array_equal(sample.instance_masks[0], (x - 9.5) ** 2 + (y - 9.5) ** 2 <= 5.5**2)

    def test_ellipse(self, tmp_path: Path) -> None:
        """``theta`` is in radians, clockwise; a file of an older version has none."""
        turned = via_region("ellipse", CUP, cx=20, cy=10, rx=12, ry=3, theta=math.pi / 6)
        sample = one(tmp_path, turned, via_region("ellipse", CUP, cx=20, cy=10, rx=12, ry=3))[0]
        y, x = np.indices(SIZE) + 0.5 - np.array([10, 20])[:, None, None]
        along, across = x * math.sqrt(3) / 2 + y / 2, y * math.sqrt(3) / 2 - x / 2
        np.testing.assert_array_equal(sample.instance_masks[0], (along / 12) ** 2 + (across / 3) ** 2 <= 1)
        np.testing.assert_array_equal(sample.instance_masks[1], (x / 12) ** 2 + (y / 3) ** 2 <= 1)

    def test_rectangles_are_boxes(self, tmp_path: Path) -> None:
        sample = one(tmp_path, via_region("rect", CUP, x=20, y=4, width=18, height=6))[0]
        assert sample.boxes.tolist() == [[*BAR_BOX]]
        assert sample.instance_masks is None

    def test_rectangles_beside_outlines_need_a_task(self, tmp_path: Path) -> None:
        regions = ELL_CUP, via_region("rect", CUP, x=20, y=4, width=18, height=6)
        with pytest.raises(DatasetError, match=r"region 2 is a box, .*: region 1 an outline: .*\(task=, --task\)"):
            one(tmp_path, *regions)
        assert one(tmp_path, *regions, task="segment")[0].num_instances == 1
        assert one(tmp_path, *regions, task="detect")[0].boxes.tolist() == [[4, 2, 16, 12], [*BAR_BOX]]

    def test_closed_polylines_are_outlines(self, tmp_path: Path) -> None:
        line = via_polygon([*ELL_POINTS, ELL_POINTS[0]], CUP, "polyline")
        np.testing.assert_array_equal(one(tmp_path, line)[0].instance_masks, [ELL])

    def test_what_encloses_nothing_is_kept_in_the_entry_of_the_photo(self, tmp_path: Path) -> None:
        line, point = via_polygon(BAR_POINTS, CUP, "polyline"), via_region("point", CUP, cx=3, cy=4)
        nameless = via_polygon(BAR_POINTS, {"class": ""})
        with pytest.warns(UserWarning, match="1 polyline, 1 point, 1 region without a label without an area are not"):
            photos = one(tmp_path, line, ELL_CUP, point, nameless)
        assert photos[0].num_instances == 1
        assert photos.image_row(0)["shapes"] == [line, point, {**nameless, "region_attributes": {}}]
        assert photos.not_objects == {"polyline": 1, "point": 1, "region without a label": 1}

    def test_all_that_a_file_says_is_kept(self, tmp_path: Path) -> None:
        region = via_polygon(ELL_POINTS, {**CUP, "striped": "no", "parts": {"rim": True}})
        photos = one(tmp_path, {**region, "score": 0.5})
        assert photos.annotation_rows(0)[0]["attributes"] == {"score": 0.5, "striped": "no", "parts": {"rim": True}}
        assert photos.image_row(0)["attributes"] == {"caption": "", "light": "dim"}


class TestClass:
    def test_values_are_in_the_order_of_the_project(self, tmp_path: Path) -> None:
        assert open_dataset(write_via(tmp_path)).class_names == ("zebra", "cup")

    def test_values_that_the_project_does_not_list(self, tmp_path: Path) -> None:
        with pytest.warns(UserWarning, match="found others: bowl"):
            photos = one(tmp_path, via_polygon(ELL_POINTS, {"class": "bowl"}))
        assert photos.class_names == ("zebra", "cup", "bowl")

    def test_a_list_of_values_goes_before_text(self, tmp_path: Path) -> None:
        """Of an export, which declares nothing, it is not known."""
        regions = [via_polygon(ELL_POINTS, {**CUP, "striped": "no"})]
        file = write_via(tmp_path, {"a": regions}) / "via_project.json"
        assert open_dataset(file).class_names == ("zebra", "cup")
        rewrite(file, lambda document: document.pop("_via_attributes"))
        message = (
            r"got class, striped; name it in convert or check \(--class-attribute\), or in Python \(class_attribute=\)"
        )
        with pytest.raises(DatasetError, match=message):
            open_dataset(file)
        photos = open_dataset(file, class_attribute="class")
        assert photos.class_names == ("cup",)
        assert photos.annotation_rows(0)[0]["attributes"] == {"striped": "no"}
        other = open_dataset(file, class_attribute="striped")
        assert other.class_names == ("no",)
        assert other.digest != photos.digest

    def test_several_lists_of_values(self, tmp_path: Path) -> None:
        colour = {"type": "radio", "options": {"red": "", "blue": ""}}
        declared = {"kind": {"type": "dropdown", "options": {"cup": ""}}, "colour": colour}
        regions = {"a": [via_polygon(ELL_POINTS, {"kind": "cup", "colour": "red"})]}
        (tmp_path / "in").mkdir()
        write_via(tmp_path / "in", regions, declared)
        with pytest.raises(DatasetError, match=r"expected one attribute of regions .* got kind, colour; name it"):
            open_dataset(tmp_path / "in")
        with pytest.raises(DatasetError, match=r"one of the attributes of regions \(kind, colour\), got 'size'"):
            open_dataset(tmp_path / "in", class_attribute="size")
        assert open_dataset(tmp_path / "in", class_attribute="colour").class_names == ("red", "blue")
        convert_dataset(tmp_path / "in", tmp_path / "out", "coco", class_attribute="colour")
        assert open_dataset(tmp_path / "out").class_names == ("red", "blue")
        words = [str(tmp_path / "in"), "--class-attribute", "kind"]
        assert main(["convert", *words, "--to", "coco", "--out", str(tmp_path / "kinds")]) == 0
        assert open_dataset(tmp_path / "kinds").class_names == ("cup",)
        assert main(["check", *words]) == 0
        assert main(["check", words[0]]) == 2

    def test_a_file_without_attributes_has_one_class(self, tmp_path: Path) -> None:
        write_via(tmp_path, {"a": [via_polygon(ELL_POINTS), via_polygon(BAR_POINTS)]}, {})
        photos = open_dataset(tmp_path)
        assert photos.class_names == ("object",)
        np.testing.assert_array_equal(photos[0].instance_masks, [ELL, BAR])

    def test_checkboxes(self, tmp_path: Path) -> None:
        """The one that is ticked; of several, none is the class."""
        declared = {"kind": {"type": "checkbox", "options": {"cup": "", "bowl": ""}}}
        ticked = [{"kind": {"cup": False, "bowl": True}}, {"kind": {}}]
        write_via(tmp_path, {"a": [via_polygon(ELL_POINTS, values) for values in ticked]}, declared)
        with pytest.warns(UserWarning, match="1 region without a label"):
            photos = open_dataset(tmp_path)
        assert photos.class_names == ("cup", "bowl")
        assert [photos.class_names[label] for label in photos.instance_labels(0)] == ["bowl"]
        write_via(tmp_path, {"a": [via_polygon(ELL_POINTS, {"kind": {"cup": True, "bowl": True}})]}, declared)
        with pytest.raises(DatasetError, match=r"region 1: expected one class as the attribute 'kind', got \['cup'"):
            open_dataset(tmp_path)

    def test_the_option_is_refused_by_other_formats(self, tmp_path: Path) -> None:
        (tmp_path / "images").mkdir()
        (tmp_path / "annotations.json").write_text('{"images": [], "annotations": [], "categories": []}')
        with pytest.raises(DatasetError, match=r"expected no class_attribute \(--class-attribute\) with COCO"):
            open_dataset(tmp_path, class_attribute="kind")


class TestFiles:
    def same(self, path: Path, folder: Path) -> None:
        found, wanted = open_dataset(path), open_dataset(folder)
        assert [*map(found.file_name, range(3))] == [*map(wanted.file_name, range(3))]
        for i in range(3):
            assert [found.class_names[label] for label in found[i].labels] == [
                wanted.class_names[label] for label in wanted[i].labels
            ]
            np.testing.assert_array_equal(found[i].instance_masks, wanted[i].instance_masks)

    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        (tmp_path / "project").mkdir()
        write_via(tmp_path / "project")
        return rewrite(tmp_path / "project/via_project.json", self._without_text)

    def _without_text(self, document: Any) -> None:
        for entry in document["_via_img_metadata"].values():
            for region in entry["regions"]:
                region["region_attributes"].pop("striped", None)

    def test_exported_json(self, project: Path, tmp_path: Path) -> None:
        shutil.copytree(project.parent, tmp_path / "export")
        entries = json.loads(project.read_text())["_via_img_metadata"]
        (tmp_path / "export/via_project.json").write_text(json.dumps(entries))
        self.same(tmp_path / "export", project.parent)

    def test_of_version_1(self, project: Path, tmp_path: Path) -> None:
        """Regions are numbered, and polygons end with their first point."""
        shutil.copytree(project.parent, tmp_path / "one")
        entries = json.loads(project.read_text())["_via_img_metadata"]
        for entry in entries.values():
            for region in entry["regions"]:
                for values in (region["shape_attributes"][f"all_points_{axis}"] for axis in "xy"):
                    values.append(values[0])
            entry |= {"fileref": "", "base64_img_data": "", "regions": dict(enumerate(entry["regions"]))}
        (tmp_path / "one/via_project.json").write_text(json.dumps(entries))
        self.same(tmp_path / "one", project.parent)

    @pytest.mark.parametrize("start", ["", "#", "\ufeff"])
    def test_csv(self, project: Path, tmp_path: Path, start: str) -> None:
        shutil.copytree(project.parent, tmp_path / "csv")
        entries = json.loads(project.read_text())["_via_img_metadata"]
        (tmp_path / "csv/via_project.json").unlink()
        (tmp_path / "csv/via_region_data.csv").write_text(start + via_csv(entries))
        assert find_dataset(tmp_path / "csv").format.name == "via"
        self.same(tmp_path / "csv", project.parent)

    def test_folders_are_splits(self, project: Path) -> None:
        for name in ("train", "val"):
            shutil.copytree(project.parent, project.parent.parent / "both" / name)
        found = find_dataset(project.parent.parent / "both")
        assert (found.format.name, found.splits) == ("via", ("train", "val"))
        assert len(found.open()) == 3

    def test_several_files(self, project: Path) -> None:
        shutil.copy(project, project.with_name("again.json"))
        with pytest.raises(DatasetError, match=r"expected one file of VIA, got again.json, via_project.json; give the"):
            open_dataset(project.parent)
        assert len(open_dataset(project.with_name("again.json"))) == 3

    def test_other_json_in_the_folder(self, project: Path) -> None:
        project.with_name("notes.json").write_text('{"filename": 3}')
        project.with_name("about.csv").write_text("filename,width\n")
        assert len(open_dataset(project.parent)) == 3

    @pytest.mark.parametrize("place", ["images", "photos", "../photos", "C:\\cups\\photos\\"])
    def test_images_elsewhere(self, project: Path, tmp_path: Path, place: str) -> None:
        """In ``images``, and below the default path of the project."""
        at = tmp_path / "photos" if place.startswith("..") else project.parent / Path(place.replace("\\", "/")).name
        at.mkdir()
        for path in project.parent.glob("*.png"):
            path.rename(at / path.name)
        if place != "images":
            default = {"default_filepath": place}
            rewrite(project, lambda document: document["_via_settings"]["core"].update(default))
        assert open_dataset(project.parent)[0].canvas_size == SIZE
        at.rename(tmp_path / "moved")
        with pytest.raises(DatasetError, match="expected an image, found no such file"):
            open_dataset(project.parent)
        assert open_dataset(project.parent, images_dir=tmp_path / "moved")[0].canvas_size == SIZE

    @pytest.mark.parametrize(
        ("name", "places", "wanted"),
        [
            ("far/a.png", ["images/a.png", "images/far/a.png"], "images/far/a.png"),
            ("far/a.png", ["images/a.png"], "images/a.png"),
            ("../far/a.png", ["../far/a.png", "images/a.png"], "images/a.png"),
            ("../far/a.png", ["../far/a.png"], "../far/a.png"),
            ("..\\far\\a.png", ["../far/a.png"], "../far/a.png"),
        ],
    )
    def test_names_with_folders(self, project: Path, name: str, places: list[str], wanted: str) -> None:
        """A place in the folder goes before one outside of it."""
        for place in places:
            photo(project.parent / place)
        entry = {"filename": name, "size": 7, "regions": [ELL_CUP]}
        rewrite(project, lambda document: document.update(_via_img_metadata={"a": entry}))
        project.with_name("a.png").unlink()
        assert open_dataset(project).file_name(0) == wanted

    def test_two_entries_of_one_file(self, project: Path) -> None:
        """Files of one name and other sizes were in other folders."""
        rewrite(project, lambda document: document["_via_img_metadata"].update({"a.png9": {"filename": "a.png"}}))
        with pytest.raises(DatasetError, match=r"image 'a.png9': expected a file for each image, got a.png for 'a.png"):
            open_dataset(project)

    def test_addresses(self, project: Path) -> None:
        """An image of the web is read from the folder, by the end of its address."""
        entry = {"filename": "https://host/cups/d%20e.png?size=2", "size": -1, "regions": [ELL_CUP]}
        rewrite(project, lambda document: document["_via_img_metadata"].update({"x-1": entry}))
        with pytest.raises(DatasetError, match=r"image 'x-1': .* only its address 'https://host/cups/.*; download the"):
            open_dataset(project)
        photo(project.with_name("d e.png"), 3)
        assert open_dataset(project).file_name(3) == "d e.png"

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda entry: entry.update(filename=3), "expected the name of its file as 'filename', got 3"),
            (lambda entry: entry.update(filename="\0"), "expected an image"),
            (lambda entry: entry.update(regions=3), "expected a list of regions as 'regions', got 3"),
            (lambda entry: entry.update(regions=[3]), "region 1: expected a region with an object, got 3"),
            (lambda entry: entry.update(regions=[{}]), "region 1: expected the key 'shape_attributes' with an object"),
            (
                lambda entry: entry.update(
                    regions=[{**ELL_CUP, "region_attributes": []}, {**ELL_CUP, "region_attributes": 3}]
                ),
                "region 2: expected the key 'region_attributes' with an object, got 3",
            ),
            (
                lambda entry: entry.update(regions=[via_polygon(ELL_POINTS, {"class": 7})]),
                "region 1: expected one class as the attribute 'class', got 7",
            ),
        ],
    )
    def test_broken_entries(self, project: Path, change: Any, message: str) -> None:
        rewrite(project, lambda document: change(next(iter(document["_via_img_metadata"].values()))))
        with pytest.raises(DatasetError, match=message) as caught:
            open_dataset(project)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("name", "numbers"),
        [
            ("polygon", {"all_points_x": [1, 2, 3], "all_points_y": [1, 2]}),
            ("polygon", {"all_points_x": [], "all_points_y": []}),
            ("polygon", {"all_points_x": [1, 2, math.inf], "all_points_y": [1, 2, 3]}),
            ("polygon", {"all_points_x": {"0": 1}, "all_points_y": [1]}),
            ("polyline", {}),
            ("rect", {"x": 1, "y": 2, "width": 3}),
            ("rect", {"x": 1, "y": 2, "width": "3", "height": 3}),
            ("circle", {"cx": 1, "cy": 2, "r": math.nan}),
            ("ellipse", {"cx": 1, "cy": 2, "rx": 3, "ry": 3, "theta": None}),
            ("ellipse", {"cx": 1, "cy": 2, "rx": 1e300, "ry": 3}),
            ("point", {"cx": True, "cy": 2}),
        ],
    )
    def test_broken_shapes(self, tmp_path: Path, name: str, numbers: Any) -> None:
        with pytest.raises(DatasetError, match=rf"a\.png.*': region 2: expected a {name} with .* in pixels, got"):
            one(tmp_path, ELL_CUP, via_region(name, CUP, **numbers))

    @pytest.mark.parametrize("name", ["star", None, []])
    def test_unknown_shapes(self, tmp_path: Path, name: Any) -> None:
        with pytest.raises(
            DatasetError, match="region 1: expected a polygon, polyline, rect, circle, ellipse or point"
        ):
            one(tmp_path, via_region(name, CUP))

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('{"_via_settings": {}}', "expected the key '_via_img_metadata' with an object, got None"),
            ('{"_via_img_metadata": []}', r"expected the key '_via_img_metadata' with an object, got \[\]"),
            (
                '{"a": {"filename": "a.png", "regions": []}, "b": 3}',
                "image 'b': expected an entry of VIA with an object",
            ),
            ('{"a": {"filename": "a.png", "regions": []}', "expected JSON of VIA, got text that does not parse"),
            ('{"a": {"filename": "a.png", "regions": ' + "[" * 100_000, "expected JSON of VIA, got text that does not"),
        ],
    )
    def test_broken_files(self, tmp_path: Path, text: str, message: str) -> None:
        photo(tmp_path / "a.png")
        (tmp_path / "via.json").write_text(text)
        with pytest.raises(DatasetError, match=rf"via\.json: {message}") as caught:
            open_dataset(tmp_path)
        assert len(str(caught.value)) < 600

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ('""name""', '""name', "line 2: expected 'region_shape_attributes' in JSON, got"),
            ('"{""name""', '[1],3,4,"{', "line 2: expected 'region_shape_attributes' with an object, got"),
            ("[4, 8, 8, 16, 16, 4]", "[" + "1, " * 100_000 + "1]", "that does not parse .field larger .*; export JSON"),
        ],
    )
    def test_broken_csv(self, tmp_path: Path, old: str, new: str, message: str) -> None:
        text = via_csv(via_entries(tmp_path, {"a": [ELL_CUP]}))
        assert old in text
        (tmp_path / "via.csv").write_text(text.replace(old, new, 1))
        with pytest.raises(DatasetError, match=rf"via\.csv: .*{message}"):
            open_dataset(tmp_path)

    def test_a_check_finds_every_broken_entry(self, tmp_path: Path) -> None:
        star = via_region("star", CUP)
        write_via(tmp_path, {"a": [star], "b": [ELL_CUP], "c": [star]})
        with pytest.raises(DatasetError):
            check_dataset(open_dataset(tmp_path))
        assert main(["check", str(tmp_path)]) == 1
