"""Label maps and maps of objects in every format, written from scenes and read back exactly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import map_files
from map_files import CITY_IDS, NAMES, NUM, NUM_THINGS, THINGS, save, save_photo, scene, write_yaml
from samples import plain
from segpaste.datasets import MapPhotos, convert_dataset, find_dataset, open_dataset
from segpaste.datasets.formats.maps.declaration import InstanceFiles
from segpaste.datasets.formats.maps.decoding import Classes, read_objects


def by_id(sample: Any, ids: Any) -> dict[int, Any]:
    """The masks of a sample by the ids of its instances in the files."""
    return dict(zip(ids, plain(sample.instance_masks), strict=True))


def expect_masks(sample: Any, ids: Any, of_scene: Any, id_of: Any) -> None:
    """The instances are those of the scene, by the id that was written for each."""
    found = by_id(sample, ids)
    wanted = {id_of(k, of_scene): mask for k, mask in enumerate(plain(of_scene.instance_masks))}
    assert set(found) == set(wanted)
    for number, mask in wanted.items():
        assert (found[number] == mask).all()


def city_id(k: int, sample: Any) -> int:
    labels = sample.labels.tolist()
    return CITY_IDS[labels[k]] * 1000 + labels[:k].count(labels[k])


def test_cityscapes_with_instances_is_panoptic(tmp_path: Path) -> None:
    photos = open_dataset(map_files.write_cityscapes(tmp_path, "instanceIds.png"))
    assert find_dataset(tmp_path).format.name == "cityscapes"
    assert len(photos) == NUM
    assert photos.schema is not None
    for index in range(NUM):
        place = [0, 2, 1][index]  # sorted by path: aachen 0, aachen 2, ulm 1
        sample, own = photos[index], scene(place)
        expect_masks(sample, photos.annotation_ids(index), own, city_id)
        assert [photos.categories[label]["id"] for label in sample.labels.tolist()] == [
            number // 1000 for number in photos.annotation_ids(index)
        ]
        ids = np.array([*(row["id"] for row in photos.categories), *[0] * 300])
        assert (ids[plain(sample.semantic_map)] == map_files.city_ids(own)[0]).all()
        numbers = plain(sample.panoptic_map)
        assert ((numbers == 0) == (plain(own.panoptic_map) == 0)).all()
        for k, mask in enumerate(plain(sample.instance_masks), start=1):
            assert ((numbers == k) == mask).all()
        assert not plain(sample.crowd_mask).any()
        assert (plain(sample.image) == plain(own.image)).all()
    assert photos.image_row(2) == {
        "id": 3,
        "file_name": "leftImg8bit/train/ulm/ulm_000001_000019_leftImg8bit.png",
        "split": "train",
        "city": "ulm",
    }
    assert [row["isthing"] for row in photos.categories] == [int(row["id"] > 23) for row in photos.categories]


def test_cityscapes_groups_are_crowds(tmp_path: Path) -> None:
    """A thing without a number, such as a group of cars, is ignored and a crowd."""
    map_files.write_cityscapes(tmp_path, "instanceIds.png")
    path = next(tmp_path.glob("gtFine/*/*/*000000_000019*"))
    _, ids = map_files.city_ids(scene(0))
    ids[3:7, 5:11] = 26
    save(path, ids.astype(np.uint16))
    photos = open_dataset(tmp_path)
    sample = photos[0]
    crowd = np.zeros(map_files.SIZE, bool)
    crowd[3:7, 5:11] = True
    assert (plain(sample.crowd_mask)[0] == crowd).all()
    assert (plain(sample.semantic_map)[crowd] == 255).all()
    assert photos.left_out(0) == {"crowd": 1}
    found = photos.crowds(0)
    assert [(row.annotation_id, photos.class_names[row.label]) for row in found] == [(26, "car")]
    assert (found[0].mask == crowd).all()
    assert [row["iscrowd"] for row in photos.annotation_rows(0)] == [0] * len(photos.annotation_ids(0)) + [1]
    assert photos.annotation_rows(0)[-1]["category_id"] == 26


@pytest.mark.parametrize("ending", ["labelIds.png", "labelTrainIds.png"])
def test_cityscapes_without_instances_is_semantic(tmp_path: Path, ending: str) -> None:
    photos = open_dataset(map_files.write_cityscapes(tmp_path, ending))
    assert isinstance(photos, MapPhotos)
    assert (photos.has_masks, photos.has_semantic_maps, photos.schema) == (False, True, None)
    names = np.array([*photos.class_names, *["void"] * 300])
    written = "person rider car truck bus train motorcycle bicycle road sidewalk building wall fence"
    wanted = np.array([*written.split(), *["void"] * 300])
    sample = photos[0]
    assert (names[plain(sample.semantic_map)] == wanted[plain(scene(0).semantic_map)]).all()
    assert sample.instance_masks is None
    assert (photos.instance_labels(0), photos.annotation_ids(0), photos.left_out(0)) == ((), (), {})


def test_cityscapes_polygons(tmp_path: Path) -> None:
    """Later polygons hide earlier ones, groups are crowds, deleted and unknown ones are not painted."""
    name = "ulm_000000_000019"
    save_photo(tmp_path / "leftImg8bit" / "train" / "ulm" / f"{name}_leftImg8bit.png", scene(0))

    def square(label: str, left: int, right: int, **more: Any) -> dict[str, Any]:
        corners = [[left, 4], [right, 4], [right, 9], [left, 9]]
        return {"label": label, "polygon": corners, **more}

    whole = {"label": "road", "polygon": [[0, 0], [42, 0], [42, 28], [0, 28]]}
    objects = [whole, square("car", 2, 9), square("car", 7, 12), square("cargroup", 15, 20), square("caravan", 22, 25)]
    objects += [square("person", 30, 35, deleted=1), square("license plate", 36, 38), square("spaceship", 39, 41)]
    path = tmp_path / "gtFine" / "train" / "ulm" / f"{name}_gtFine_polygons.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"imgHeight": 29, "imgWidth": 43, "objects": objects}))
    photos = open_dataset(tmp_path)
    sample = photos[0]
    assert photos.annotation_ids(0) == (26000, 26001)
    rows, columns = np.mgrid[:29, :43]
    first = (rows >= 4) & (rows <= 9) & (columns >= 2) & (columns < 7)
    second = (rows >= 4) & (rows <= 9) & (columns >= 7) & (columns <= 12)
    assert (plain(sample.instance_masks) == np.stack([first, second])).all()
    crowd = (rows >= 4) & (rows <= 9) & (columns >= 15) & (columns <= 20)
    assert (plain(sample.crowd_mask)[0] == crowd).all()
    void = (rows >= 4) & (rows <= 9) & (columns >= 22) & (columns <= 25)
    road = photos.class_names.index("road")
    assert (plain(sample.semantic_map) == np.where(crowd | void, 255, np.where(first | second, 13, road))).all()
    assert photos.class_names[13] == "car"


def test_ade20k_scene_parsing(tmp_path: Path) -> None:
    for index in range(NUM):
        for split in ("training", "validation"):
            save_photo(tmp_path / "images" / split / f"ADE_{index}.jpg", scene(index))
            stored = np.where(plain(scene(index).semantic_map) == 255, 0, plain(scene(index).semantic_map) + 1)
            save(tmp_path / "annotations" / split / f"ADE_{index}.png", stored.astype(np.uint8))
    lines = [f"{n}\t0.1\t11\t1\tname {n}, other name" for n in range(1, 151)]
    (tmp_path / "objectInfo150.txt").write_text("\n".join(["Idx\tRatio\tTrain\tVal\tName", *lines]))
    found = find_dataset(tmp_path)
    assert (found.format.name, found.splits) == ("ade20k", ("training", "validation"))
    photos = open_dataset(tmp_path)
    assert (photos.class_names[0], photos.class_names[149]) == ("name 1", "name 150")
    for index in range(NUM):
        assert (plain(photos[index].semantic_map) == plain(scene(index).semantic_map)).all()
    (tmp_path / "objectInfo150.txt").unlink()
    assert open_dataset(tmp_path, "validation").class_names[149] == "class_150"


def test_ade20k_full(tmp_path: Path) -> None:
    """Class ids of four digits, nested folders; names come from the JSON of each photo, or from a list."""
    ids = {label: 300 * (label + 1) for label in range(NUM_THINGS)}
    for index in range(NUM):
        sample = scene(index)
        stem = tmp_path / "images" / "ADE" / "training" / "urban" / f"street{index}" / f"ADE_{index}"
        save_photo(stem.with_suffix(".jpg"), sample)
        colors = np.zeros((*map_files.SIZE, 3), np.uint8)
        rows = []
        for k, (label, mask) in enumerate(zip(sample.labels.tolist(), plain(sample.instance_masks), strict=True)):
            colors[mask] = ids[label] // 256 * 10, ids[label] % 256, k + 1
            rows.append({"name": f"{NAMES[label]}, thing", "name_ndx": ids[label], "id": k})
        save(stem.parent / f"ADE_{index}_seg.png", colors)
        stem.with_suffix(".json").write_text(json.dumps({"annotation": {"object": rows}}))
    photos = open_dataset(tmp_path)
    assert find_dataset(tmp_path).format.name == "ade20k-full"
    for index in range(NUM):
        sample, own = photos[index], scene(index)
        expect_masks(sample, photos.annotation_ids(index), own, lambda k, s: ids[s.labels.tolist()[k]] * 65536 + k + 1)
        assert sample.semantic_map is None
        names = [photos.class_names[label] for label in sample.labels]
        assert dict(zip(photos.annotation_ids(index), names, strict=True)) == {
            ids[label] * 65536 + k + 1: f"{NAMES[label]}, thing" for k, label in enumerate(own.labels.tolist())
        }
    assert photos.image_row(0)["folders"] == "urban/street0/"
    (tmp_path / "classes.txt").write_text("\n".join(f"class {n}" for n in range(1, 2500)))
    assert len(open_dataset(tmp_path).class_names) == 2499


def test_what_ade20k_full_does_not_read(tmp_path: Path) -> None:
    """Parts, masks of whole objects, and attributes, which are in two files or in the older one."""
    stem = tmp_path / "images/ADE/training/street/ADE_0"
    save_photo(stem.with_suffix(".jpg"), scene(0))
    colors = np.zeros((*map_files.SIZE, 3), np.uint8)
    colors[2:9, 2:9] = 0, 11, 1
    save(stem.with_name("ADE_0_seg.png"), colors)
    row = {"name": "car", "name_ndx": 11, "id": 0, "attributes": []}
    (tmp_path / "classes.txt").write_text("\n".join(f"class {n}" for n in range(1, 12)))
    stem.with_suffix(".json").write_text(json.dumps({"annotation": {"object": [row]}}))
    assert convert_dataset(tmp_path, tmp_path / "none", "coco").losses == {}
    rows = [row, {**row, "attributes": ["red"]}, {**row, "attributes": "wet"}]
    stem.with_suffix(".json").write_text(json.dumps({"annotation": {"object": rows}}))
    stem.with_name("ADE_0_atr.txt").write_text('001 # 0 # 0 # car # car # "red"\n002 # 0 # 0 # car # car # ""\n')
    for level in (1, 2):
        save(stem.with_name(f"ADE_0_parts_{level}.png"), colors)
    for number in range(3):
        save(stem / f"instance_00{number}_ADE_0.png", colors)
    named = "maps of parts of objects (NAME_parts_1.png)", "masks of whole objects (NAME/*.png)"
    attributes = "objects with attributes (NAME.json, NAME_atr.txt)"
    losses = convert_dataset(tmp_path, tmp_path / "some", "coco").losses
    assert losses == {named[0]: 2, named[1]: 3, attributes: 2}
    stem.with_suffix(".json").unlink()
    assert convert_dataset(tmp_path, tmp_path / "older", "coco").losses[attributes] == 1


def test_camvid_of_ids(tmp_path: Path) -> None:
    """Other names in classes.txt; then void is the number after the last class."""
    for split in ("train", "val"):
        save_photo(tmp_path / split / "a.1.png", scene(0))
        stored = np.where(plain(scene(0).semantic_map) == 255, 13, plain(scene(0).semantic_map))
        save(tmp_path / f"{split}annot" / "a.1.png", stored.astype(np.uint8))
    (tmp_path / "classes.txt").write_text("\n".join([*NAMES, "Unlabelled"]))
    found = find_dataset(tmp_path)
    assert (found.format.name, found.splits) == ("camvid", ("train", "val"))
    photos = open_dataset(tmp_path)
    assert photos.class_names == NAMES
    assert (plain(photos[0].semantic_map) == plain(scene(0).semantic_map)).all()


def test_camvid_of_colours(tmp_path: Path) -> None:
    colors = np.array([(17 * i + 3, 200 - 9 * i, i) for i in range(13)] + [(0, 0, 0)] * 243, np.uint8)
    save_photo(tmp_path / "train" / "a.png", scene(1))
    save(tmp_path / "train_labels" / "a_L.png", colors[plain(scene(1).semantic_map)])
    rows = [f"{name},{r},{g},{b}" for name, (r, g, b) in zip([*NAMES, "Void"], colors[:14].tolist(), strict=True)]
    (tmp_path / "class_dict.csv").write_text("\n".join(["name,r,g,b", *rows]))
    photos = open_dataset(tmp_path)
    assert (plain(photos[0].semantic_map) == plain(scene(1).semantic_map)).all()
    assert photos.categories[1] == {"id": 1, "name": NAMES[1], "color": colors[1].tolist()}


def test_class_255_of_many_has_objects() -> None:
    """Only semantic maps of samples keep 255 for void: ADE20K has thousands of classes."""
    classes = Classes(tuple(f"class {i}" for i in range(300)), tuple(range(1, 301)))
    stored = np.zeros((2, 3, 3), np.uint8)
    stored[0, 0] = 256 // 256 * 10, 256 % 256, 1  # class 255, the first object
    found = read_objects(stored, InstanceFiles(files="x", encoding="ade20k", void=(0,)), classes, None, "x")
    assert found.labels == (255,)
    assert found.masks.sum() == found.masks[0, 0, 0] == 1


def test_a_void_value_that_is_also_a_class_is_the_class() -> None:
    """CamVid's maps have 255 as void in any case, also with 256 classes."""
    classes = Classes(("road", "sky"), (3, 255))
    assert classes.labels_of(np.array([255, 3, 7]), (255, 7), "x")[:2].tolist() == [1, 0]


def test_label_maps_as_this_package_writes_them(tmp_path: Path) -> None:
    """All modalities; the camera is in our coordinates."""
    for index in range(NUM):
        own, name = scene(index), f"train/{index}"
        semantic, panoptic = map_files.maps_of(own)
        save_photo(tmp_path / "images" / f"{name}.jpg", own)
        save(tmp_path / "semantic" / f"{name}.png", semantic.astype(np.uint8))
        save(tmp_path / "instances" / f"{name}.png", panoptic.astype(np.uint8))
        save(tmp_path / "depth" / f"{name}.npy", plain(own.depth)[0])
        save(tmp_path / "depth_valid" / f"{name}.png", plain(own.depth_valid)[0].astype(np.uint8) * 255)
        save(tmp_path / "normals" / f"{name}.npy", plain(own.normals).transpose(1, 2, 0))
        camera = own.camera_intrinsics
        (tmp_path / "intrinsics" / "train").mkdir(parents=True, exist_ok=True)
        text = f"{camera.fx!r} 0 {camera.cx!r}\n0 {camera.fy!r} {camera.cy!r}\n0 0 1\n"
        (tmp_path / "intrinsics" / f"{name}.txt").write_text(text)
    (tmp_path / "classes.txt").write_text("".join(f"{name}\n" for name in NAMES))
    photos = open_dataset(tmp_path)
    assert find_dataset(tmp_path).format.name == "label-maps"
    for index in range(NUM):
        sample, own = photos[index], scene(index)
        assert objects_of(sample) == objects_of(own)
        for field in ("semantic_map", "depth", "depth_valid"):
            assert (plain(getattr(sample, field)) == plain(getattr(own, field))).all()
        np.testing.assert_allclose(plain(sample.normals), plain(own.normals), atol=1e-6)
        assert sample.camera_intrinsics == own.camera_intrinsics
        assert sample.metric_depth


def write_masks(root: Path, file_of: Any) -> None:
    """A file for each object; ``file_of`` names it by photo, number and class."""
    for index in range(NUM):
        sample = scene(index)
        save_photo(root / "images" / f"img_{index}.jpg", sample)
        for k, (label, mask) in enumerate(zip(sample.labels.tolist(), plain(sample.instance_masks), strict=True)):
            save(root / file_of(f"img_{index}", k + 1, NAMES[label]), mask.astype(np.uint8) * 255)


def objects_of(sample: Any) -> set[tuple[int, bytes]]:
    """The class and the mask of each object, in any order."""
    masks = plain(sample.instance_masks)
    return {(label, mask.tobytes()) for label, mask in zip(sample.labels.tolist(), masks, strict=True)}


@pytest.mark.parametrize(
    ("files", "file_of"),
    [
        ("masks/{name}/{class}_{number}.png", lambda name, k, kind: f"masks/{name}/{kind}_{k}.png"),
        ("masks/{class}/{name}_*.png", lambda name, k, kind: f"masks/{kind}/{name}_{k}.png"),
        ("masks/{name}_{class}_{number}.png", lambda name, k, kind: f"masks/{name}_{kind}_{k}.png"),
    ],
)
def test_a_file_for_each_object(tmp_path: Path, files: str, file_of: Any) -> None:
    """The class in the name or in the folder; photos called img_1 and img_10 are told apart."""
    write_masks(tmp_path, file_of)
    save_photo(tmp_path / "images" / "img_10.jpg", scene(0))
    save(tmp_path / file_of("img_10", 1, THINGS[2]), np.ones(map_files.SIZE, np.uint8))
    classes = json.dumps(list(THINGS))
    write_yaml(
        tmp_path, f"photos: images/{{name}}.jpg\nclasses: {classes}\ninstances: {{files: '{files}', encoding: mask}}"
    )
    photos = open_dataset(tmp_path)
    assert [photos.file_name(i) for i in range(4)] == [f"images/img_{i}.jpg" for i in ("0", "1", "10", "2")]
    for index, place in ((0, 0), (1, 1), (3, 2)):
        sample, own = photos[index], scene(place)
        assert objects_of(sample) == objects_of(own)
        assert sample.labels.tolist() == list(photos.instance_labels(index))
    assert photos[2].labels.tolist() == [2]
    assert photos[2].instance_masks.all()


def test_a_file_belongs_to_the_photo_of_the_longest_name(tmp_path: Path) -> None:
    for name in ("img", "img_red", "img_red_cup"):
        save_photo(tmp_path / "images" / f"{name}.png", scene(0))
    for name in ("img_red_cup_1", "img_cup_1", "img_red_cup_cup_1", "img_red_red_cup_1"):
        save(tmp_path / "masks" / f"{name}.png", np.ones(map_files.SIZE, np.uint8))
    text = "photos: images/{name}.png\nclasses: [cup, red_cup]\n"
    write_yaml(tmp_path, text + "instances: {files: 'masks/{name}_{class}_{number}.png', encoding: mask}")
    photos = open_dataset(tmp_path)
    assert [photos.file_name(i) for i in range(3)] == [
        f"images/{name}.png" for name in ("img", "img_red", "img_red_cup")
    ]
    assert [photos.instance_labels(i) for i in range(3)] == [(0,), (0, 1), (0,)]


def test_objects_of_one_class_and_files_without_pixels(tmp_path: Path) -> None:
    """Files are numbered in natural order; an empty one is counted, a photo without files has no objects."""
    for name in ("a", "b"):
        save_photo(tmp_path / "images" / f"{name}.png", scene(0))
    for number in (10, 9, 2):
        mask = np.zeros(map_files.SIZE, np.uint8)
        mask[:, :number] = number != 9
        save(tmp_path / "masks" / "a" / f"{number}.png", mask)
    text = "photos: images/{name}.png\nclasses: [cell]\n"
    text += "instances: {files: 'masks/{name}/*.png', encoding: mask, class: cell}"
    photos = open_dataset(write_yaml(tmp_path, text))
    assert plain(photos[0].instance_masks).sum((1, 2)).tolist() == [29 * 2, 29 * 10]
    assert (photos.annotation_ids(0), photos.left_out(0)) == ((1, 3), {"empty": 1})
    assert (photos[1].num_instances, photos.annotation_ids(1)) == (0, ())


def test_numbers_whose_class_is_that_of_the_semantic_map(tmp_path: Path) -> None:
    """As in VOC: a border of 255 in both maps is void."""
    border = np.zeros(map_files.SIZE, bool)
    border[:, 20] = True
    for index in range(NUM):
        semantic, panoptic = map_files.maps_of(scene(index))
        save_photo(tmp_path / "rgb" / f"{index}.png", scene(index))
        save(tmp_path / "classes" / f"{index}.png", np.where(border, 255, semantic).astype(np.uint8))
        save(tmp_path / "objects" / f"{index}.png", np.where(border, 255, panoptic).astype(np.uint8))
    text = f"""
photos: rgb/{{name}}.png
classes: {json.dumps(list(NAMES))}
things: {json.dumps(list(THINGS))}
semantic: {{files: 'classes/{{name}}.png', void: [255]}}
instances: {{files: 'objects/{{name}}.png', encoding: number, void: [255]}}
"""
    photos = open_dataset(write_yaml(tmp_path, text))
    for index in range(NUM):
        sample, (semantic, panoptic) = photos[index], map_files.maps_of(scene(index))
        assert (plain(sample.semantic_map) == np.where(border, 255, semantic)).all()
        assert (np.sign(plain(sample.panoptic_map)) == np.sign(np.where(border, 0, panoptic))).all()
        for number, mask in by_id(sample, photos.annotation_ids(index)).items():
            assert (mask == ((panoptic == number) & ~border)).all()
        assert not plain(sample.crowd_mask).any()


def test_class_and_number_in_channels(tmp_path: Path) -> None:
    """Stuff has the number 0; class ids with gaps; without things the samples are not panoptic."""
    for index in range(NUM):
        semantic, panoptic = map_files.maps_of(scene(index))
        channels = np.stack([np.where(semantic == 255, 0, semantic * 3 + 1), panoptic, 0 * panoptic], -1)
        save_photo(tmp_path / "images" / f"{index}.png", scene(index))
        save(tmp_path / "maps" / f"{index}.png", channels.astype(np.uint8))
    entries = "\n".join(f"  {label * 3 + 1}: {name}" for label, name in enumerate(NAMES))
    text = f"photos: images/{{name}}.png\nclasses:\n{entries}\n"
    text += "instances: {files: 'maps/{name}.png', encoding: class_and_number, void: [0]}\n"
    write_yaml(tmp_path, text)
    photos = open_dataset(tmp_path)
    for index in range(NUM):
        expect_masks(
            photos[index],
            photos.annotation_ids(index),
            scene(index),
            lambda k, s: (s.labels.tolist()[k] * 3 + 1) * 65536 + k + 1,
        )
        assert photos[index].panoptic_map is None
    write_yaml(tmp_path, text + f"things: {json.dumps(list(THINGS))}")
    assert (plain(open_dataset(tmp_path)[0].semantic_map) == plain(scene(0).semantic_map)).all()


def test_splits_by_lists(tmp_path: Path) -> None:
    for index in range(NUM):
        save_photo(tmp_path / "images" / f"{index}.png", scene(index))
        save(tmp_path / "maps" / f"{index}.png", np.zeros(map_files.SIZE, np.uint8))
    (tmp_path / "train.txt").write_text("2\n0.png\n")
    (tmp_path / "test.txt").write_text("images/1.png\n")
    text = "photos: images/{name}.png\nclasses: [a]\nsemantic: {files: 'maps/{name}.png'}\n"
    write_yaml(tmp_path, text + "splits: {train: train.txt, test: test.txt}")
    assert find_dataset(tmp_path).splits == ("train", "test")
    photos = open_dataset(tmp_path)
    assert [photos.file_name(i) for i in range(len(photos))] == ["images/0.png", "images/2.png"]
    assert open_dataset(tmp_path, "test").file_name(0) == "images/1.png"


def test_photos_without_a_map_are_left_out(tmp_path: Path) -> None:
    map_files.write_cityscapes(tmp_path, "labelIds.png")
    next(tmp_path.glob("gtFine/*/ulm/*")).unlink()
    with pytest.warns(UserWarning, match="left out 1 images: 1 without semantic"):
        photos = open_dataset(tmp_path)
    assert [photos.image_row(i)["city"] for i in range(len(photos))] == ["aachen", "aachen"]
    assert [photos.image_id(i) for i in range(2)] == [1, 2]


def test_the_digest_follows_labels_and_not_the_place(tmp_path: Path) -> None:
    one = open_dataset(map_files.write_cityscapes(tmp_path / "one", "labelIds.png"))
    two = open_dataset(map_files.write_cityscapes(tmp_path / "two", "labelIds.png"))
    assert one.digest == two.digest
    path = next((tmp_path / "two").glob("gtFine/*/ulm/*"))
    save(path, np.full(map_files.SIZE, 7, np.uint8))
    assert one.digest != open_dataset(tmp_path / "two").digest
