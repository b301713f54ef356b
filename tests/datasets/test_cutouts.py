"""Cut-outs: which pixels are the object, which colours lie beside it, how large it is meant to be, and odd files."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coco_files import annotation_row, image_row
from numpy.typing import NDArray
from PIL import Image

from cutout_files import cutout, png_of_16_bits, write, write_cutouts
from segpaste.bank import BuildSummary, DatasetBank, build_bank, open_bank
from segpaste.datasets import CutOuts, DatasetError, learned_sizes, read_size_prior
from segpaste.datasets.formats.cutouts import filled_colours
from segpaste.datasets.formats.size_priors import size_at

PICTURE = cutout()


def as_palette(path: Path) -> None:
    """Colours 1 to 7, and 0, which is transparent."""
    indices = np.where(PICTURE[..., 3] == 255, PICTURE[..., 0] % 7 + 1, 0).astype(np.uint8)
    image = Image.fromarray(indices).convert("P")
    image.putpalette([value for i in range(8) for value in (i * 20, 100, 255 - i)])
    image.save(path, transparency=0)


WAYS: dict[str, Callable[[Path], object]] = {
    "a.png": lambda path: Image.fromarray(PICTURE).save(path),
    "b.webp": lambda path: Image.fromarray(PICTURE).save(path, lossless=True, exact=True),
    "c.tiff": lambda path: Image.fromarray(PICTURE).save(path),
    "d.PNG": lambda path: path.write_bytes(png_of_16_bits(PICTURE.astype(np.uint16) * 257)),
    "e.png": as_palette,
    "f.png": lambda path: Image.fromarray(PICTURE).convert("LA").save(path),
}


class TestPixels:
    @pytest.mark.parametrize("name", WAYS)
    def test_any_file_with_transparency(self, name: str, tmp_path: Path) -> None:
        (tmp_path / "cup").mkdir()
        WAYS[name](tmp_path / "cup" / name)
        (sample,) = CutOuts(tmp_path)
        mask = sample.instance_masks[0].numpy()  # type: ignore[index]
        np.testing.assert_array_equal(mask, np.pad(PICTURE[..., 3] == 255, 1))
        with Image.open(tmp_path / "cup" / name) as picture:
            colours = np.pad(np.array(picture.convert("RGB")), ((1, 1), (1, 1), (0, 0))).transpose(2, 0, 1)
        np.testing.assert_array_equal(sample.image.numpy()[:, mask], colours[:, mask])
        assert sample.boxes.tolist() == [[5, 7, 21, 18]]
        assert (sample.labels.tolist(), sample.image.shape) == ([0], (3, 25, 33))

    @pytest.mark.parametrize(
        ("threshold", "first"), [(0.001, 1), (0.5, 128), (100 / 255, 100), (0.9999, 255), (1, 255)]
    )
    def test_threshold(self, threshold: float, first: int, tmp_path: Path) -> None:
        picture = np.full((1, 256, 4), 7, np.uint8)
        picture[0, :, 3] = range(256)
        write(tmp_path / "ramp" / "a.png", picture)
        (sample,) = CutOuts(tmp_path, alpha_threshold=threshold)
        assert sample.instance_masks[0, 1, 1:-1].nonzero().flatten().tolist() == list(range(first, 256))  # type: ignore[index]

    @pytest.mark.parametrize("threshold", [0, -1, 1.5, float("nan")])
    def test_bad_threshold(self, threshold: float, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="alpha_threshold: expected a number above 0"):
            CutOuts(write_cutouts(tmp_path), alpha_threshold=threshold)

    def test_no_dark_fringe(self, tmp_path: Path) -> None:
        """The object has one colour, all around it is black: a shrunk crop has no other colour."""
        picture = cutout((201, 187), (20, 30, 150, 160))
        picture[picture[..., 3] == 255] = (200, 90, 40, 255)
        write(tmp_path / "photos" / "cup" / "a.png", picture)
        photos = CutOuts(tmp_path / "photos")
        build_bank(photos, tmp_path / "bank", class_names=photos.class_names, crop_size=(17, 13))
        image = open_bank(tmp_path / "bank")[0].image
        assert {tuple(colour) for colour in image.reshape(3, -1).T.tolist()} == {(200, 90, 40)}

    def test_filled_against_a_slow_one(self) -> None:
        rng = np.random.default_rng(0)
        for size in [(1, 1), (1, 5), (7, 3), (13, 17)]:
            image = rng.integers(0, 256, (3, *size), dtype=np.uint8)
            weights = (rng.integers(1, 256, size) * (rng.random(size) < 0.2)).astype(np.uint8)
            weights[tuple(rng.integers(0, size))] = 200
            filled = filled_colours(image, weights)
            np.testing.assert_array_equal(filled[:, weights > 0], image[:, weights > 0])
            for plane, result in zip(image, filled, strict=True):
                for y, x in np.argwhere(weights == 0):
                    assert abs(float(result[y, x]) - slowly_filled(plane, weights / 255, y, x)) <= 0.51


def slowly_filled(plane: NDArray[Any], weights: NDArray[Any], y: int, x: int) -> float:
    """The mean of the smallest block of 2^k x 2^k pixels of the grid around a pixel that has weight."""

    def block(level: int, row: int, col: int) -> tuple[float, float]:
        if level == 0:
            inside = row < plane.shape[0] and col < plane.shape[1]
            return (float(plane[row, col]), float(weights[row, col])) if inside else (0.0, 0.0)
        four = [block(level - 1, 2 * row + i, 2 * col + j) for i in (0, 1) for j in (0, 1)]
        total = sum(weight for _, weight in four)
        return (sum(c * w for c, w in four) / total if total else 0.0, min(total, 1.0))

    level = 0
    while not (found := block(level, y >> level, x >> level))[1]:
        level += 1
    return found[0]


class TestFiles:
    def test_classes_and_order(self, tmp_path: Path) -> None:
        write_cutouts(tmp_path)
        write(tmp_path / ".hidden" / "a.png", PICTURE)
        write(tmp_path / "cup" / ".a.png", PICTURE)
        (tmp_path / "zebra" / "notes.txt").write_text("by hand")
        (tmp_path / "zebra" / "again").symlink_to(tmp_path, target_is_directory=True)
        (tmp_path / "mule").symlink_to(tmp_path / "zebra" / "side", target_is_directory=True)
        photos = CutOuts(tmp_path)
        assert photos.class_names == ("cup", "mule", "zebra")
        names = [photos.file_name(i) for i in range(len(photos))]
        assert names == sorted(names)
        assert [name.rpartition("/")[0] for name in names] == ["cup"] * 3 + ["mule"] * 3 + ["zebra/side"] * 3
        assert [photos.instance_labels(i) for i in range(9)] == [(n // 3,) for n in range(9)]
        assert photos.num_other_files == 1
        again = pickle.loads(pickle.dumps(photos))
        assert again.digest == photos.digest != CutOuts(tmp_path, alpha_threshold=0.4).digest
        assert again[4].image.equal(photos[4].image)

    @pytest.mark.parametrize(
        ("name", "spoil", "words"),
        [
            ("cup/x.gif", lambda p: frames(p), "cup/x.gif has more than one frame"),
            ("cup/x.webp", lambda p: frames(p), "cup/x.webp has more than one frame"),
            ("cup/x.png", lambda p: frames(p), "cup/x.png has more than one frame"),
            ("cup/x.png", lambda p: write(p, PICTURE[..., :3]), r"cup/x.png has no transparency \(mode RGB\)"),
            ("cup/x.jpg", lambda p: write(p, PICTURE[..., :3]), r"cup/x.jpg has no transparency \(mode RGB\)"),
            ("cup/x.png", lambda p: write(p, PICTURE[..., 0]), r"cup/x.png has no transparency \(mode L\)"),
            ("cup/x.png", lambda p: p.write_text("no"), "cup/x.png is not an image, or is broken"),
            ("cup/x", lambda p: p.write_bytes(b""), "cup/x is not an image, or is broken"),
            ("cup/x.png", lambda p: p.symlink_to(p.with_name("gone.png")), "cup/x.png is a broken link"),
            ("x.png", lambda p: write(p, PICTURE), "x.png is not in a class folder"),
            ("cup/x.png", lambda p: cut_off(p), "cup/x.png: expected an image, could not decode it"),
            ("cup/x.png", lambda p: write(p, PICTURE | np.uint8(255)), "cup/x.png: .*got an opaque image"),
            (
                "cup/x.png",
                lambda p: write(p, PICTURE & np.uint8(100)),
                "cup/x.png: .*no pixel with alpha .* at most 0.39",
            ),
            ("cup/x.png", lambda p: write(p, np.zeros_like(PICTURE)), "cup/x.png: .*no pixel with alpha .* at most 0;"),
        ],
    )
    def test_what_is_no_cutout(self, name: str, spoil: Callable[[Path], object], words: str, tmp_path: Path) -> None:
        folder = write_cutouts(tmp_path / "cutouts", 1)
        spoil(folder / name)
        with pytest.raises(DatasetError, match=words):
            list(CutOuts(folder))
        with pytest.warns(UserWarning, match=words):
            summary = built(CutOuts(folder, skip_unreadable=True), tmp_path / "bank")
        assert (summary.kept, summary.skipped["unreadable"]) == ((1, 1), 1)

    def test_many_are_counted(self, tmp_path: Path) -> None:
        for i in range(8):
            write(tmp_path / "cup" / f"{i}.png", PICTURE[..., :3])
        with pytest.raises(DatasetError, match=r"cup/4.png has no .*; and 3 more; remove them, or .*--skip-unreadable"):
            CutOuts(tmp_path)

    def test_nothing_there(self, tmp_path: Path) -> None:
        with pytest.raises(DatasetError, match="expected a folder of images, found none"):
            CutOuts(tmp_path / "none")
        (tmp_path / "cup").mkdir()
        with pytest.raises(DatasetError, match=r"expected images in folders by class, CLASS/NAME\.png, got none"):
            CutOuts(tmp_path)


def built(photos: CutOuts, out: Path) -> BuildSummary:
    return build_bank(photos, out, class_names=photos.class_names, crop_size=(8, 8))


def frames(path: Path) -> None:
    pictures = [Image.fromarray(cutout(seed=i)) for i in range(2)]
    pictures[0].save(path, save_all=True, append_images=pictures[1:])


def cut_off(path: Path) -> None:
    write(path, PICTURE)
    path.write_bytes(path.read_bytes()[:-200])


class TestSizes:
    def test_of_a_bank(self, tmp_path: Path) -> None:
        """Each object has the longer side that the prior says, in a photo of the named size, and in pixels of it."""
        sizes = {"cup": (0.25,), "*": (0.02, 0.1)}
        photos = CutOuts(write_cutouts(tmp_path / "cutouts", 4), sizes=sizes, image_size=(90, 160))
        build_bank(photos, tmp_path / "bank", class_names=photos.class_names, crop_size=(20, 20))
        bank, pool = open_bank(tmp_path / "bank"), DatasetBank(photos, crop_size=(20, 20))
        found = []
        for i in range(8):
            crop = bank[i]
            assert np.array_equal(crop.image, pool[i].image)
            assert (crop.scale, *np.array(crop.source_box)) == (pool[i].scale, *np.array(pool[i].source_box))
            assert np.array(crop.source_size).tolist() == [90, 160]
            x1, y1, x2, y2 = np.array(crop.source_box).tolist()
            assert ((x1 + x2) / 2, (y1 + y2) / 2) == pytest.approx((80, 45))
            own = photos[i].boxes[0].tolist()
            assert (x2 - x1) / (y2 - y1) == pytest.approx((own[2] - own[0]) / (own[3] - own[1]))
            found.append(max(x2 - x1, y2 - y1))
            ys, xs = np.nonzero(crop.alpha[0])
            across = max(np.ptp(xs), np.ptp(ys)) + 1
            assert crop.scale is not None
            assert crop.scale <= 1
            assert abs(across / crop.scale - found[-1]) <= 1.01 / crop.scale
        assert found[:4] == [30] * 4  # 0.25 of sqrt(90 * 160)
        assert all(round(0.02 * 120) <= px <= 12 for px in found[4:])
        assert len(set(found[4:])) > 1

    def test_quantiles(self) -> None:
        names = [f"cup/{i}.png" for i in range(10000)]
        drawn = np.array([size_at((0.1, 0.2, 0.6), name) for name in names])
        assert drawn.min() >= 0.1
        assert drawn.max() <= 0.6
        assert np.median(drawn) == pytest.approx(0.2, abs=0.01)
        assert np.quantile(drawn, (0.25, 0.75)) == pytest.approx((0.15, 0.4), abs=0.02)
        assert {size_at((0.3,), name) for name in names} == {0.3}

    def test_learned(self, tmp_path: Path) -> None:
        boxes = [(3, [0, 0, 10, 5]), (3, [0, 0, 8, 20]), (3, [0, 0, 90, 1]), (7, [1, 1, 4, 4])]
        rows = [annotation_row(i, 1 + i % 2, [], category, bbox=box) for i, (category, box) in enumerate(boxes)]
        rows += [annotation_row(9, 1, [], 7, bbox=[0, 0, 50, 50], iscrowd=1), annotation_row(8, 1, [], 7, bbox=None)]
        categories = [{"id": i, "name": name} for i, name in ((3, "car"), (7, "cup"), (90, "zebra"))]
        images = [image_row(1, (40, 90)), image_row(2, (10, 40))]
        path = tmp_path / "a.json"
        path.write_text(json.dumps({"images": images, "annotations": rows, "categories": categories}))
        sizes, image_size = learned_sizes(path)
        assert image_size == (25, 65)
        assert set(sizes) == {"car", "cup"}
        assert [sizes["car"][i] for i in (0, 50, 100)] == pytest.approx([10 / 60, 1.0, 1.0])
        assert set(sizes["cup"]) == {4 / 20}

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("cup: 0", "expected a size above 0, up to 1, of 'cup'"),
            ("cup: 1.5", "of 'cup', or a range"),
            ("cup: [0.5, 0.1]", r"got \[0.5, 0.1\]"),
            ("cup: large", "got 'large'"),
            ("cup: true", "got True"),
            ("cup: []", r"got \[\]"),
            ("- cup", r"expected sizes by class, such as 'cup: \[0.05, 0.2\]', got \['cup'\]"),
            ("", "expected sizes by class"),
            ("cup: [0.1", "expected sizes in YAML or JSON, got text that is neither"),
            (None, "expected sizes in YAML or JSON, got No such file"),
        ],
    )
    def test_bad_files(self, text: str | None, words: str, tmp_path: Path) -> None:
        if text is not None:
            (tmp_path / "sizes.yaml").write_text(text)
        with pytest.raises(DatasetError, match=words):
            read_size_prior(tmp_path / "sizes.yaml")

    def test_files(self, tmp_path: Path) -> None:
        (tmp_path / "sizes.yaml").write_text("cup: 0.1\nzebra: [0.2, 0.4]\n'*': 1\n")
        (tmp_path / "sizes.json").write_text('{"cup": 0.1, "zebra": [0.2, 0.4], "*": 1}')
        expected = {"cup": (0.1,), "zebra": (0.2, 0.4), "*": (1.0,)}
        assert read_size_prior(tmp_path / "sizes.yaml") == read_size_prior(tmp_path / "sizes.json") == expected

    def test_every_class_needs_one(self, tmp_path: Path) -> None:
        with pytest.raises(DatasetError, match=r"expected a size for each class, got none for zebra; .* or '\*'"):
            CutOuts(write_cutouts(tmp_path), sizes={"cup": (0.1,)})
