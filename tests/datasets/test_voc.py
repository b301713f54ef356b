"""Pascal VOC: boxes from 1, difficult objects, maps in indices and colours, lists, broken files, and real maps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from drawn_files import BAR, BAR_BOX, ELL, SPOT, VOID, indexed, photo, voc_object, voc_xml, write_voc
from PIL import Image

from segpaste.datasets import DatasetError, check_dataset, convert_dataset, find_dataset, open_dataset
from segpaste.datasets.formats.tool_shapes import FURTHER_PARTS
from segpaste.datasets.formats.voc.files import palette

MAPS = ("SegmentationObject", "SegmentationClass")


FLAGS = {
    **dict.fromkeys(("1", " 1 ", "1.0", "true", "True", "TRUE\n"), 1),
    **dict.fromkeys(("0", "0.0", "false", " False", "", " "), 0),
}
FINER = {
    "polygon": "<polygon><x1>5</x1><y1>5</y1><x2>9</x2><y2>5</y2><x3>9</x3><y3>9</y3></polygon>",
    "points": "<polygon><pt><x>5</x><y>5</y></pt><pt><x>9</x><y>5</y></pt><pt><x>9</x><y>9</y></pt></polygon>",
    "rotated": "<robndbox><cx>20</cx><cy>20</cy><w>9</w><h>5</h><angle>0.3</angle></robndbox>",
    "empty": "<polygon/>",
}


def write_boxes(folder: Path, *objects: str, name: str = "a") -> Path:
    """Write a photo and its XML file side by side."""
    photo(folder / f"{name}.png")
    (folder / f"{name}.xml").write_text(voc_xml(f"{name}.png", *objects))
    return folder


class TestBoxes:
    def test_they_count_from_one_and_include_their_ends(self, tmp_path: Path) -> None:
        """A box from 1 to 3 is the first three pixels; a 0, which other tools write, is no pixel before the first."""
        bounds = "<bndbox><xmin>1</xmin><ymin>0</ymin><xmax>3</xmax><ymax>20.0</ymax></bndbox>"
        photos = open_dataset(write_boxes(tmp_path, f"<object><name>cup</name>{bounds}</object>"))
        assert not photos.has_masks
        assert photos[0].boxes.tolist() == [[0, 0, 3, 20]]

    def test_difficult_objects_are_ignored_regions(self, tmp_path: Path) -> None:
        objects = voc_object("zebra", BAR_BOX, difficult=1), voc_object("cup", (4, 2, 16, 12), difficult=0)
        photos = open_dataset(write_boxes(tmp_path, *objects))
        sample = photos[0]
        assert sample.labels.tolist() == [0]
        np.testing.assert_array_equal(sample.crowd_mask, [BAR])
        assert [row.get("ignore") for row in photos.annotation_rows(0)] == [1, None]

    @pytest.mark.parametrize(("text", "flag"), FLAGS.items())
    def test_flags_in_any_spelling(self, tmp_path: Path, text: str, flag: int) -> None:
        photos = open_dataset(write_boxes(tmp_path, voc_object("cup", BAR_BOX, difficult=text, occluded=text)))
        row = photos.annotation_rows(0)[0]
        assert row.get("ignore", 0) == flag
        assert not text.strip() or row["attributes"] == {"difficult": flag, "occluded": flag}

    @pytest.mark.parametrize("text", ["yes", "2", "-1", "nan", "Unspecified", "0.5"])
    def test_what_is_no_flag_is_refused(self, tmp_path: Path, text: str) -> None:
        folder = write_boxes(tmp_path, voc_object("cup", BAR_BOX, difficult=text, truncated=text))
        message = f"object 1: expected 'difficult' as 0 or 1, got {text!r}; correct it"
        with pytest.raises(DatasetError, match=message):
            open_dataset(folder)
        (tmp_path / "a.xml").write_text(voc_xml("a.png", voc_object("cup", BAR_BOX, truncated=text)))
        assert open_dataset(folder).annotation_rows(0)[0]["attributes"] == {"truncated": text}

    @pytest.mark.parametrize("shape", FINER)
    def test_shapes_beside_boxes_are_named(self, tmp_path: Path, shape: str) -> None:
        """Other tools write outlines, whose origin VOC does not define."""
        finer = voc_object("cup", BAR_BOX).replace("</object>", f"{FINER[shape]}</object>")
        folder = write_boxes(tmp_path / "in", finer, voc_object("zebra", BAR_BOX))
        photos = open_dataset(folder)
        assert photos[0].boxes.tolist() == [list(BAR_BOX)] * 2
        what = "outlines and rotated boxes of XML files (<polygon>, <robndbox>), whose upright boxes are read"
        num = int(shape != "empty")
        said = [found for found in check_dataset(photos).findings if found.kind == "left_out"]
        assert [found.message.endswith(f": 1 {what}") for found in said] == [True] * num
        assert convert_dataset(folder, tmp_path / "out", "coco").losses.get(what, 0) == num

    def test_parts_and_poses_are_kept(self, tmp_path: Path) -> None:
        part = "<part><name>head</name><bndbox><xmin>3</xmin></bndbox></part>"
        row = voc_object("cup", (4, 2, 16, 12), pose="Left", occluded=1).replace("</object>", f"{part}{part}</object>")
        found = open_dataset(write_boxes(tmp_path, row)).annotation_rows(0)[0]["attributes"]
        head = {"name": "head", "bndbox": {"xmin": "3"}}
        assert found == {"pose": "Left", "occluded": 1, "part": [head, head]}

    def test_folders_of_photos_with_their_files(self, tmp_path: Path) -> None:
        write_boxes(tmp_path / "train", voc_object("cup", BAR_BOX))
        write_boxes(tmp_path / "valid", voc_object("cup", BAR_BOX))
        assert find_dataset(tmp_path).splits == ("train", "valid")
        assert open_dataset(tmp_path).class_names == ("cup",)

    def test_the_task_detect_reads_boxes_beside_maps(self, tmp_path: Path) -> None:
        photos = open_dataset(write_voc(tmp_path), task="detect")
        assert photos.class_names == ("cup", "zebra")
        assert photos[0].boxes.tolist() == [[4, 2, 16, 12], [20, 4, 38, 18]]
        assert photos[0].semantic_map is None

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("<annotation><object/></annotation>", "object 1: expected a <name> and a <bndbox>, got ''"),
            (
                "<annotation><object><name>cup</name><bndbox/></object></annotation>",
                "object 1: <bndbox>: expected 'xmin', a number",
            ),
            ("<annotation><object><name>cup</name>", "expected XML, got truncated"),
            ("<annotation><size><width>a</width></size></annotation>", "<size>: expected 'width', a number"),
        ],
    )
    def test_broken(self, tmp_path: Path, text: str, message: str) -> None:
        write_boxes(tmp_path)
        (tmp_path / "a.xml").write_text(text)
        with pytest.raises(DatasetError, match=rf"a\.xml: {message}"):
            open_dataset(tmp_path)

    def test_the_size_of_the_photo_where_the_file_has_none(self, tmp_path: Path) -> None:
        write_boxes(tmp_path)
        (tmp_path / "a.xml").write_text(f"<annotation>{voc_object('cup', BAR_BOX)}</annotation>")
        assert open_dataset(tmp_path)[0].boxes.tolist() == [[*map(float, BAR_BOX)]]


class TestMaps:
    def test_void_is_ignored_in_the_semantic_map_and_no_crowd(self, tmp_path: Path) -> None:
        sample = open_dataset(write_voc(tmp_path, xml=False))[0]
        wanted = np.where(VOID, 255, np.where(ELL, 1, np.where(BAR | SPOT, 2, 0)))
        np.testing.assert_array_equal(sample.semantic_map, wanted)
        assert sample.labels.tolist() == [1, 2]
        assert sample.crowd_mask is None

    @pytest.mark.parametrize("most", [255, 0])
    def test_an_object_that_is_mostly_void_or_background_has_the_class_of_the_rest(
        self, tmp_path: Path, most: int
    ) -> None:
        folder = write_voc(tmp_path, xml=False)
        indexed(folder / "SegmentationClass" / "b.png", (BAR, most), (BAR & ~np.roll(BAR, 1, 1), 2))
        sample = open_dataset(folder)[1]
        assert sample.labels.tolist() == [2]
        np.testing.assert_array_equal(sample.instance_masks, [BAR])

    def test_a_difficult_object_is_an_ignored_region_of_its_pixels(self, tmp_path: Path) -> None:
        path = write_voc(tmp_path) / "Annotations" / "b.xml"
        path.write_text(voc_xml("b.png", voc_object("cup", BAR_BOX, difficult=1)))
        photos = open_dataset(tmp_path)
        np.testing.assert_array_equal(photos[1].crowd_mask, [BAR])
        assert len(photos[1].labels) == 0
        assert photos.annotation_rows(1)[0]["attributes"] == {"difficult": 1}

    def test_boxes_find_their_objects(self, tmp_path: Path) -> None:
        """In another order than the maps', and one that no object fits, which is an object without a mask."""
        folder = write_voc(tmp_path)
        objects = voc_object("zebra", (20, 4, 38, 18), n=1), voc_object("cup", (4, 2, 16, 12), n=2)
        alone = voc_object("cup", (2, 14, 10, 18), n=3)
        (folder / "Annotations" / "a.xml").write_text(voc_xml("a.png", *objects, alone))
        photos = open_dataset(folder)
        rows = photos.annotation_rows(0)
        assert [(row["category_id"], row["attributes"]["n"], row.get("ignore")) for row in rows] == [
            (2, "2", None),
            (3, "1", None),
            (2, "3", None),
        ]
        assert [(crowd.is_ignored, crowd.box) for crowd in photos.crowds(0)] == [(False, (2, 14, 10, 18))]
        assert photos[0].crowd_mask.sum() == 8 * 4
        assert len({row["id"] for row in rows}) == 3

    def test_maps_in_colours(self, tmp_path: Path) -> None:
        """As CVAT exports them: objects in the colours of VOC, classes in those of the label map."""
        folder = write_voc(tmp_path, xml=False)
        (folder / "class_names.txt").unlink()
        (folder / "labelmap.txt").write_text(
            "# label:color:parts:actions\nbackground:0,0,0::\ncup:9,8,7::\nzebra:1,2,3::\n"
        )
        of_voc = {index: color for color, index in palette().items()}
        colors = {"SegmentationObject": of_voc, "SegmentationClass": {**of_voc, 1: (9, 8, 7), 2: (1, 2, 3)}}
        for name, table in colors.items():
            for path in (folder / name).glob("*.png"):
                values = np.array(Image.open(path))
                Image.fromarray(np.array([table[i] for i in range(256)], np.uint8)[values]).save(path)
        photos = open_dataset(folder)
        assert photos.class_names == ("background", "cup", "zebra")
        np.testing.assert_array_equal(photos[0].instance_masks, [ELL & ~VOID, BAR | SPOT])
        (folder / "labelmap.txt").write_text("background:0,0,0::\ncup:9,8,7::\nzebra:1,2,4::\n")
        with pytest.raises(DatasetError, match=r"a\.png: expected the colours of the label map, got \(1, 2, 3\)"):
            open_dataset(folder)[0]

    def test_the_palette_is_that_of_voc(self) -> None:
        """The first colours of VOC's maps and void, as its page shows them."""
        known = {0: (0, 0, 0), 1: (128, 0, 0), 2: (0, 128, 0), 4: (0, 0, 128), 8: (64, 0, 0), 15: (192, 128, 128)}
        assert {index: color for color, index in palette().items() if index in known} == known
        assert palette()[224, 224, 192] == 255

    def test_classes_alone_give_semantic_maps(self, tmp_path: Path) -> None:
        folder = write_voc(tmp_path, xml=False)
        for path in (folder / "SegmentationObject").iterdir():
            path.unlink()
        (folder / "SegmentationObject").rmdir()
        photos = open_dataset(folder)
        sample = photos[0]
        assert not photos.has_masks
        assert (sample.instance_masks, sample.num_instances) == (None, 0)
        assert np.unique(sample.semantic_map).tolist() == [0, 1, 2, 255]

    def test_objects_without_maps_of_classes(self, tmp_path: Path) -> None:
        """The classes are those of their boxes."""
        folder = write_voc(tmp_path)
        for path in (folder / "SegmentationClass").iterdir():
            path.unlink()
        (folder / "SegmentationClass").rmdir()
        photos = open_dataset(folder)
        assert photos[0].labels.tolist() == [1, 2]
        (folder / "Annotations" / "b.xml").unlink()
        with pytest.raises(DatasetError, match=r"object 1: expected its class in SegmentationClass or Annotations"):
            open_dataset(folder)[1]

    def test_the_classes_of_voc(self, tmp_path: Path) -> None:
        """They are used if no file lists classes; boxes may have no others."""
        folder = write_voc(tmp_path, xml=False)
        (folder / "class_names.txt").unlink()
        photos = open_dataset(folder)
        assert [photos.class_names[label] for label in photos[0].labels] == ["aeroplane", "bicycle"]
        (folder / "Annotations").mkdir()
        (folder / "Annotations" / "a.xml").write_text(voc_xml("a.png", voc_object("cup", BAR_BOX)))
        with pytest.raises(
            DatasetError, match=r"expected the classes of the maps in class_names\.txt, .*not those of VOC: cup"
        ):
            open_dataset(folder)

    def test_broken(self, tmp_path: Path) -> None:
        folder = write_voc(tmp_path)
        first = folder / "SegmentationClass" / "a.png"
        indexed(first, (ELL, 1), (BAR, 9))
        with pytest.raises(
            DatasetError, match=r"SegmentationObject/a\.png: object 2: expected a class from 1 to 2 .* \[0, 9\]"
        ):
            open_dataset(folder)[0]
        Image.new("P", (3, 2)).save(first)
        with pytest.raises(
            DatasetError, match=r"SegmentationClass/a\.png: expected 40 x 20 pixels like the image, got 3 x 2"
        ):
            open_dataset(folder)[0]
        whole = (folder / "SegmentationObject" / "b.png").read_bytes()
        (folder / "SegmentationObject" / "b.png").write_bytes(whole[:-30])
        with pytest.raises(DatasetError, match=r"b\.png: expected a map, could not decode it"):
            open_dataset(folder)[1]
        first.unlink()
        with pytest.raises(DatasetError, match=r"SegmentationClass/a\.png: expected a label map, found no such file"):
            open_dataset(folder)


class TestLists:
    def test_lists_of_segmentation_before_those_of_boxes(self, tmp_path: Path) -> None:
        folder = write_voc(tmp_path)
        for kind, lists in {
            "Segmentation": {"train": "b\na\n", "val": "c\n"},
            "Main": {"train": "c\n", "cup_train": ""},
        }.items():
            for name, text in lists.items():
                path = folder / "ImageSets" / kind / f"{name}.txt"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        assert find_dataset(folder).splits == ("train", "val")
        photos = open_dataset(folder)
        assert [photos.file_name(i) for i in range(2)] == ["b.png", "a.png"]
        assert [open_dataset(folder, task="detect").file_name(0)] == ["c.png"]

    def test_lists_of_one_class_are_no_splits(self, tmp_path: Path) -> None:
        folder = write_voc(tmp_path) / "ImageSets" / "Main"
        folder.mkdir(parents=True)
        for name in ("train", "cup_train", "cup_trainval"):
            (folder / f"{name}.txt").write_text("b  1\n")
        assert find_dataset(tmp_path).splits == ("train",)
        assert len(open_dataset(tmp_path)) == 1

    def test_a_listed_photo_without_annotations(self, tmp_path: Path) -> None:
        folder = write_voc(tmp_path)
        path = folder / "ImageSets" / "Main" / "train.txt"
        path.parent.mkdir(parents=True)
        path.write_text("a\nd\n")
        with pytest.raises(DatasetError, match=r"Annotations/d\.xml: expected the boxes of an image of the split"):
            open_dataset(folder, task="detect")
        with pytest.raises(DatasetError, match=r"SegmentationObject/d\.png: expected a label map, found no such file"):
            open_dataset(folder)


def test_real_maps(test_data: Path) -> None:
    """Objects, classes and void of the maps that labelme makes of its example, pixel by pixel."""
    folder = test_data / "labelme_voc" / "instance_segmentation" / "data_dataset_voc"
    photos = open_dataset(folder)
    names = (folder / "class_names.txt").read_text().split("\n")
    assert photos.class_names == tuple(names)
    assert len(photos) == 3
    for i in range(3):
        stem = Path(photos.file_name(i)).stem
        objects, classes = (np.array(Image.open(folder / name / f"{stem}.png")) for name in MAPS)
        sample = photos[i]
        np.testing.assert_array_equal(sample.semantic_map, classes)
        numbers = [number for number in range(1, 255) if (objects == number).any()]
        np.testing.assert_array_equal(sample.instance_masks, [objects == number for number in numbers])
        for mask, label in zip(sample.instance_masks, sample.labels, strict=True):
            assert {*classes[mask.numpy()].tolist()} - {255} == {int(label)}
    assert find_dataset(folder.parent.parent / "semantic_segmentation_voc").format.name == "voc"


class TestOddBoxes:
    """Objects of XML files as tools write them: edges in another order, and elements that stand twice."""

    def write(self, folder: Path, boxes: str, name: str = "<name>cup</name>") -> Path:
        (folder / "train").mkdir(parents=True)
        Image.new("RGB", (40, 48)).save(folder / "train" / "a.png")
        (folder / "train" / "a.xml").write_text(
            f"<annotation><filename>a.png</filename><size><width>40</width><height>48</height></size><object>{name}"
            f"{boxes}</object></annotation>"
        )
        return folder

    @staticmethod
    def box(x1: int, y1: int, x2: int, y2: int) -> str:
        edges = {"xmin": x1, "ymin": y1, "xmax": x2, "ymax": y2}
        return "<bndbox>" + "".join(f"<{key}>{edge}</{key}>" for key, edge in edges.items()) + "</bndbox>"

    @pytest.mark.parametrize("edges", [(3, 4, 20, 30), (20, 4, 3, 30), (3, 30, 20, 4), (20, 30, 3, 4)])
    def test_edges_in_any_order_are_the_same_box(self, edges: tuple[int, int, int, int], tmp_path: Path) -> None:
        dataset = open_dataset(self.write(tmp_path / "in", self.box(*edges)))
        assert dataset[0].boxes.tolist() == [[2.0, 3.0, 20.0, 30.0]]

    def test_a_swapped_edge_before_the_first_pixel_is_counted(self, tmp_path: Path) -> None:
        dataset = open_dataset(self.write(tmp_path / "in", self.box(20, 4, 0, 30)))
        assert sum(dataset.unread(0).values()) == 1

    @pytest.mark.parametrize("what", ["name", "box"])
    def test_a_second_one_is_a_loss_and_a_finding(self, what: str, tmp_path: Path) -> None:
        first, second = self.box(3, 4, 20, 30), self.box(5, 6, 7, 8)
        boxes, names = (
            (first + second, "<name>cup</name>") if what == "box" else (first, "<name>cup</name><name>b</name>")
        )
        path = self.write(tmp_path / "in", boxes, names)
        assert open_dataset(path)[0].boxes.tolist() == [[2.0, 3.0, 20.0, 30.0]]
        assert convert_dataset(path, tmp_path / "out", "coco").losses[FURTHER_PARTS] == 1
        assert [found.kind for found in check_dataset(open_dataset(path)).findings] == ["boxes_alone", "left_out"]


@pytest.mark.filterwarnings("ignore:data.yaml")
@pytest.mark.parametrize("to", ["yolo", "coco", "voc", "label-maps"])
def test_an_image_of_several_lists_is_written_once(to: str, tmp_path: Path) -> None:
    """In the first of train, val and test that names it; the usual union, trainval, adds nothing."""
    path = write_voc(tmp_path / "in")
    lists = path / "ImageSets/Segmentation"
    lists.mkdir(parents=True, exist_ok=True)
    stems = sorted(file.stem for file in (path / "JPEGImages").iterdir())
    for name, named in (("train", stems[:1]), ("val", stems[:2]), ("trainval", stems[:2]), ("test", stems)):
        (lists / f"{name}.txt").write_text("\n".join(named))
    done = convert_dataset(path, tmp_path / "out", to)
    assert done.num_photos == {"train": 1, "val": 1, "test": len(stems) - 2}
    opened = [open_dataset(tmp_path / "out", split) for split in find_dataset(tmp_path / "out").splits]
    images = [Path(photos.file_name(index)).stem for photos in opened for index in range(len(photos))]
    assert sorted(images) == stems
    alone = convert_dataset(path, tmp_path / "alone", to, splits=["trainval"])
    assert alone.num_photos == {"trainval": 2}
