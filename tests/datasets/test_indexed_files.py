"""Annotation files read through an index in the cache folder: same samples, and what happens to damaged indexes."""

from __future__ import annotations

import json
import os
import pickle
import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coco_files import annotation_row, image_row, write_coco, write_many

from on_disk import rectangle, runs
from samples import assert_same
from segpaste.datasets import CocoDetectionV2, CocoPanoptic, DatasetError
from segpaste.datasets.large_json import file as annotation_file
from segpaste.datasets.large_json import index as index_files
from segpaste.datasets.large_json import text as json_text
from segpaste.datasets.large_json.file import AnnotationFile
from segpaste.datasets.large_json.index import (
    id_column,
    join_columns,
    narrow,
    pack_texts,
    positions_in,
    repeats,
    unpack_text,
)

SIZE = (17, 11)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the index files; every annotation file counts as large."""
    monkeypatch.setenv("SEGPASTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(json_text, "HELD_BYTES", 0)
    return tmp_path / "cache" / "annotations"


@pytest.fixture
def no_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("the file was scanned")

    monkeypatch.setattr(annotation_file, "scan", refuse)


def everything(photos: CocoDetectionV2 | CocoPanoptic) -> list[Any]:
    """Return everything that a reader tells about a dataset, without the samples."""
    names = ("image_id", "file_name", "image_size", "instance_labels", "image_row", "annotation_rows", "federated")
    facts = [photos.class_names, photos.category_ids, photos.has_crowds, photos.categories, photos.tables()]
    return [*facts, *([getattr(photos, name)(i) for name in names] for i in range(len(photos)))]


def assert_reads_as_held(photos: CocoDetectionV2, held: CocoDetectionV2) -> None:
    assert everything(photos) == everything(held)
    assert photos.digest == held.digest
    for i in range(len(held)):
        assert_same(photos[i], held[i])
        assert (photos.annotation_ids(i), photos.left_out(i)) == (held.annotation_ids(i), held.left_out(i))


class TestIndex:
    def test_reads_as_a_small_file(self, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        paths = write_many(tmp_path)
        photos = CocoDetectionV2(*paths)
        monkeypatch.setattr(json_text, "HELD_BYTES", 1 << 20)
        assert_reads_as_held(photos, CocoDetectionV2(*paths))
        assert [file.suffix for file in cache.iterdir()] == [".index"]
        assert not list(tmp_path.glob("*index*"))

    def test_is_read_by_later_runs_and_workers(self, tmp_path: Path, cache: Path, request: Any) -> None:
        paths = write_many(tmp_path)
        first = CocoDetectionV2(*paths)
        pickled = pickle.dumps(first)
        request.getfixturevalue("no_scan")
        assert_reads_as_held(CocoDetectionV2(*paths), first)
        assert_reads_as_held(pickle.loads(pickled), first)
        (moved := tmp_path / "moved.json").write_bytes(paths[1].read_bytes())
        assert_reads_as_held(CocoDetectionV2(paths[0], moved), first)

    def test_photos_are_found_without_decoding_entries(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A scan of a million photos asks each for its file."""
        images, path = write_many(tmp_path)
        photos = CocoDetectionV2(images, path)
        expected = [(images / f"{100 + i}.png", (19 + i, 23 - i)) for i in range(len(photos))]
        monkeypatch.setattr(AnnotationFile, "row", lambda *_: pytest.fail("an entry was decoded"))
        assert [photos.photo_file(i) for i in range(len(photos))] == expected

    def test_other_content_has_another_index(self, tmp_path: Path, cache: Path) -> None:
        paths = write_many(tmp_path)
        assert len(CocoDetectionV2(*paths)) == 7
        paths = write_many(tmp_path, 5)
        assert len(CocoDetectionV2(*paths)) == 5
        assert len(list(cache.iterdir())) == 2

    def test_arrays_are_mapped_and_read_only(self, tmp_path: Path, cache: Path) -> None:
        photos = CocoDetectionV2(*write_many(tmp_path))
        for array in photos._records._columns.values():
            assert not array.flags.writeable
            assert not array.flags.owndata

    @pytest.mark.parametrize("where", ["magic", "checksum", "length", "header", "arrays", "end"])
    def test_damage_is_found(self, tmp_path: Path, cache: Path, where: str) -> None:
        paths = write_many(tmp_path)
        first = CocoDetectionV2(*paths)
        (path,) = cache.iterdir()
        whole = bytearray(path.read_bytes())
        at = {"magic": 3, "checksum": 17, "length": 21, "header": 60, "arrays": len(whole) - 30, "end": len(whole) - 1}
        path.unlink()  # the first reader has it mapped
        whole[at[where]] ^= 4
        path.write_bytes(whole)
        assert_reads_as_held(CocoDetectionV2(*paths), first)
        whole[at[where]] ^= 4
        assert path.read_bytes() == whole

    @pytest.mark.parametrize("content", [b"", b"segpaste-index\0\0", b"x" * 3000, "cut", "longer", "foreign", "folder"])
    def test_foreign_files_are_found(self, tmp_path: Path, cache: Path, content: bytes | str) -> None:
        paths = write_many(tmp_path)
        first = CocoDetectionV2(*paths)
        (path,) = cache.iterdir()
        whole = path.read_bytes()
        path.unlink()
        if content == "folder":
            path.mkdir()
        elif content == "foreign":
            os.environ["SEGPASTE_CACHE"] = str(tmp_path / "other")
            (tmp_path / "b").mkdir()
            CocoDetectionV2(*write_many(tmp_path / "b", 5))
            os.environ["SEGPASTE_CACHE"] = str(tmp_path / "cache")
            (other,) = (tmp_path / "other" / "annotations").iterdir()
            path.write_bytes(other.read_bytes())
        else:
            path.write_bytes(
                content if isinstance(content, bytes) else {"cut": whole[:-7], "longer": whole + b"0"}[content]
            )
        assert_reads_as_held(CocoDetectionV2(*paths), first)
        if content != "folder":
            assert path.read_bytes() == whole

    @pytest.mark.parametrize("place", ["a file", "read-only"])
    def test_a_cache_that_cannot_be_written(self, tmp_path: Path, cache: Path, place: str) -> None:
        if place == "a file":
            cache.parent.write_text("")
        else:
            os.environ["SEGPASTE_CACHE"] = "/proc/segpaste"
        paths = write_many(tmp_path)
        assert_reads_as_held(CocoDetectionV2(*paths), CocoDetectionV2(*paths))

    def test_what_nobody_uses_is_removed(self, tmp_path: Path, cache: Path) -> None:
        paths = write_many(tmp_path)
        CocoDetectionV2(*paths)
        (path,) = cache.iterdir()
        os.utime(path, (1e9, 1e9))
        CocoDetectionV2(*paths)
        CocoDetectionV2(*write_many(tmp_path, 5))
        assert path.exists()
        os.utime(path, (1e9, 1e9))
        CocoDetectionV2(*write_many(tmp_path, 4))
        assert not path.exists()
        assert len(list(cache.iterdir())) == 2

    def test_a_broken_file_is_not_kept(self, tmp_path: Path, cache: Path) -> None:
        paths = write_coco(tmp_path, [image_row(5, SIZE)], [annotation_row(1, 6, [])])
        for _ in range(2):
            with pytest.raises(DatasetError, match="annotation 1 refers to in 'images', got 6"):
                CocoDetectionV2(*paths)
        assert not cache.exists() or not list(cache.iterdir())

    def test_digests_of_settled_files_are_noted(
        self, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("segpaste.datasets.large_json.file._NOTED_BYTES", 0)
        images_dir, path = write_many(tmp_path)
        digest = CocoDetectionV2(images_dir, path).digest
        assert not list(cache.glob("*.digest"))  # a write in this moment could leave the same times
        monkeypatch.setattr(index_files, "_SETTLED_NS", -1)
        assert CocoDetectionV2(images_dir, path).digest == digest
        (note,) = cache.glob("*.digest")
        assert note.read_text() == digest
        monkeypatch.setattr(json_text.Source, "compute_digest", None)
        assert CocoDetectionV2(images_dir, path).digest == digest
        note.write_text("no digest")
        with pytest.raises(TypeError):
            CocoDetectionV2(images_dir, path)


class TestChangedFiles:
    def test_written_in_place(self, tmp_path: Path, cache: Path) -> None:
        images_dir, path = write_many(tmp_path)
        photos = CocoDetectionV2(images_dir, path)
        path.write_text(path.read_text().replace('"id": 103', '"id": 303'))
        for read in (photos.image_row, photos.__getitem__):
            with pytest.raises(DatasetError, match=r"annotations\.json: expected the annotations that were there when"):
                read(3)
        path.write_text("")
        with pytest.raises(DatasetError, match="open it again"):
            photos.annotation_rows(3)

    def test_another_file_of_its_name(self, tmp_path: Path, cache: Path) -> None:
        images_dir, path = write_many(tmp_path)
        photos = CocoDetectionV2(images_dir, path)
        before = everything(photos)
        (tmp_path / "new.json").write_text("{}")
        os.replace(tmp_path / "new.json", path)
        assert everything(photos) == before

    def test_small_files_may_be_written_in_place(self, tmp_path: Path) -> None:
        images_dir, path = write_many(tmp_path)
        photos = CocoDetectionV2(images_dir, path)
        before = everything(photos)
        path.write_text("{}")
        assert everything(photos) == before


class TestContent:
    @pytest.fixture(params=["held", "indexed"])
    def way(self, request: pytest.FixtureRequest) -> str:
        if request.param == "indexed":
            request.getfixturevalue("cache")
        return str(request.param)

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
    def test_encodings(self, tmp_path: Path, way: str, encoding: str) -> None:
        images_dir, path = write_coco(tmp_path, [image_row(5, SIZE, "ö.png")], [annotation_row(1, 5, [], note="ß")])
        document = json.loads(path.read_text())
        path.write_text(json.dumps(document, ensure_ascii=False), encoding)
        photos = CocoDetectionV2(images_dir, path)
        assert (photos.file_name(0), photos.annotation_rows(0)) == ("ö.png", document["annotations"])

    def test_a_pipe(self, tmp_path: Path, way: str) -> None:
        images_dir, path = write_many(tmp_path)
        os.mkfifo(tmp_path / "pipe")
        writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(path.read_bytes(),))
        writer.start()
        assert everything(CocoDetectionV2(images_dir, tmp_path / "pipe")) == everything(
            CocoDetectionV2(images_dir, path)
        )
        writer.join()

    @pytest.mark.parametrize("ids", [(7, 5), (-3, 5), (1 << 40, 5), (1 << 70, 5), (1 << 63, -(1 << 80))])
    def test_ids_of_any_size(self, tmp_path: Path, way: str, ids: tuple[int, int]) -> None:
        images = [image_row(i, SIZE, "a.png") for i in ids]
        annotations = [annotation_row(i + 1, i, runs(rectangle(SIZE, 1, 1, 9, 9))) for i in reversed(ids)]
        photos = CocoDetectionV2(*write_coco(tmp_path, images, annotations, photos=False))
        assert [photos.image_id(i) for i in range(2)] == list(ids)
        assert [photos.annotation_rows(i) for i in range(2)] == [[row] for row in reversed(annotations)]

    def test_values_that_only_python_writes(self, tmp_path: Path, way: str) -> None:
        rows = [
            annotation_row(1, 5, [], score=float("nan"), area=float("inf")),
            annotation_row(2, 5, [], note="\ud83d", big=1 << 200),
        ]
        images_dir, path = write_coco(tmp_path, [image_row(5, SIZE)], rows)
        assert repr(CocoDetectionV2(images_dir, path).annotation_rows(0)) == repr(rows)

    def test_a_file_name_of_half_a_character(self, tmp_path: Path, way: str) -> None:
        images_dir, path = write_coco(tmp_path, [image_row(5, SIZE, "\ud83d.png")], [], photos=False)
        assert CocoDetectionV2(images_dir, path).file_name(0) == "\ud83d.png"

    @pytest.mark.parametrize("table", ["images", "annotations", "categories", "info", "licenses"])
    def test_a_broken_row_is_named(self, tmp_path: Path, way: str, table: str) -> None:
        images_dir, path = write_many(tmp_path)
        document = {**json.loads(path.read_text()), "info": [{"broken": 0}], "licenses": {"broken": 1}}
        rows = document[table] if table != "licenses" else [document[table]]
        rows[-1]["broken"] = "HERE"
        path.write_text(json.dumps(document).replace('"HERE"', "nonsense"))
        with pytest.raises(DatasetError, match=r"annotations\.json: expected JSON, got truncated") as caught:
            CocoDetectionV2(images_dir, path)
        assert "\n" not in str(caught.value)
        if table in ("images", "annotations"):
            assert f"{table}[{len(rows) - 1}], byte " in str(caught.value)

    def test_rows_of_many_blocks(self, tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Shuffled rows of many photos, put together by plain dictionaries."""
        monkeypatch.setattr(annotation_file, "_BLOCK_BYTES", 1000)
        draw = random.Random(3)
        images = [image_row(i * 7 + 2, SIZE, f"{i}.png") for i in range(90)]
        annotations = [
            annotation_row(
                i,
                draw.choice(images)["id"],
                [],
                draw.choice((3, 7, 90)),
                iscrowd=int(i % 11 == 0),
                ignore=int(i % 7 == 0),
            )
            for i in range(400)
        ]
        draw.shuffle(images)
        draw.shuffle(annotations)
        photos = CocoDetectionV2(*write_coco(tmp_path, images, annotations, photos=False))
        for i, image in enumerate(images):
            own = [row for row in annotations if row["image_id"] == image["id"]]
            instances = [row for row in own if not row["iscrowd"] and not row["ignore"]]
            assert (photos.image_row(i), photos.annotation_rows(i)) == (image, own)
            assert photos.instance_labels(i) == tuple((3, 7, 90).index(row["category_id"]) for row in instances)
            assert photos.left_out(i) == {"crowd": len(own) - len(instances), "empty": 0}
            assert (photos.image_id(i), photos.image_size(i), photos.file_name(i)) == (
                image["id"],
                SIZE,
                image["file_name"],
            )


class TestColumns:
    def test_narrow_keeps_values(self) -> None:
        for values in ([], [0, 255], [256], [-1, 5], [1 << 40]):
            found = narrow(np.array(values, np.int64))
            assert found.tolist() == values
        assert narrow(np.array([200])).dtype == np.uint8

    def test_mixed_ids(self) -> None:
        ids = join_columns([id_column([3, -1]), id_column([1 << 90, 2])])
        assert [int(i) for i in ids] == [3, -1, 1 << 90, 2]
        assert positions_in(ids, id_column([2, 4, -1, 1 << 90])).tolist() == [3, -1, 1, 2]
        assert positions_in(id_column([3, 1]), id_column([1 << 90, 1])).tolist() == [-1, 1]
        assert positions_in(id_column([]), id_column([1, 2])).tolist() == [-1, -1]
        assert repeats(id_column([3, 4, 5, 4, 3])).tolist() == [False, False, False, True, True]

    def test_texts(self) -> None:
        texts = ["", "ä", "abc", "", "\ud83d"]
        packed, ends = pack_texts(texts)
        assert [unpack_text(packed, ends, i) for i in range(5)] == texts


def test_kinds_of_a_file(tmp_path: Path, cache: Path) -> None:
    for name, document, is_panoptic in (
        ("a", {"annotations": [{"x": "segments_info"}]}, False),
        ("b", {"annotations": [{}, {"segments_info": []}]}, True),
        ("c", {"annotations": []}, False),
    ):
        (tmp_path / name).write_text(json.dumps(document))
        assert AnnotationFile(tmp_path / name).is_panoptic is is_panoptic
