"""Samples that the native library reads through a window, next to the parts of the jitter one after the other."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from coco_files import annotation_row, image_row, write_coco, write_many
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torchvision import tv_tensors

from on_disk import noise, rectangle, runs
from samples import all_modality_subsets, assert_same, make_sample, subset_id
from segpaste.datasets import (
    CocoDetectionV2,
    DatasetError,
    LargeScaleJitter,
    create_coco_dataloader,
    make_large_scale_jittering,
)
from segpaste.datasets import _windows as sample_windows
from segpaste.datasets.formats.image_pixels import read_pixels
from segpaste.datasets.formats.instances import InstanceImages
from segpaste.engine import use_backend
from segpaste.types import DenseSample

sides = st.one_of(st.integers(1, 9), st.integers(1, 60))
sizes = st.tuples(sides, sides)
seeds = st.integers(0, 2**64 - 1)


def both(read: Any) -> DenseSample:
    """Read natively and by the reference, and expect the same."""
    with use_backend("native"):
        native = read()
    with use_backend("reference"):
        expected = read()
    assert_same(native, expected)
    result: DenseSample = native
    return result


class TestJitter:
    @given(sizes, sizes, st.integers(0, 4), st.sampled_from(all_modality_subsets()), seeds)
    def test_equals_its_parts(self, size: Any, out_size: Any, num: int, modalities: Any, seed: int) -> None:
        sample = make_sample(size, min(num, size[0] * size[1]), modalities, seed=num, image_dtype=torch.uint8)
        jitter = make_large_scale_jittering(out_size, (0.1, 3.0), min_area_px=1 + seed % 5, fill=seed % 256)
        both(lambda: jitter(sample, seed))

    @pytest.mark.parametrize("modalities", all_modality_subsets(), ids=subset_id)
    def test_every_modality_is_seen_natively(self, modalities: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[str] = []
        read = sample_windows.through
        monkeypatch.setattr(sample_windows, "through", lambda *args: (seen.append(args[1]), read(*args))[1])
        sample = make_sample((23, 31), 3, modalities)
        with use_backend("native"):
            make_large_scale_jittering(29)(sample, 5)
        names = ("instance_masks", "semantic_map", "panoptic_map")
        assert seen == [name for name in names if getattr(sample, name) is not None]

    @pytest.mark.parametrize("channels", [1, 2, 4, 5])
    @pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
    def test_other_images(self, channels: int, dtype: torch.dtype) -> None:
        sample = make_sample((23, 31), 3)
        pixels = torch.rand(channels, 23, 31, generator=torch.Generator().manual_seed(1))
        image = pixels if dtype.is_floating_point else (pixels * 255).to(dtype)
        changed = DenseSample.from_dict({**sample.to_dict(), "image": tv_tensors.Image(image)})
        for seed in range(8):
            both(lambda seed=seed: make_large_scale_jittering((19, 37))(changed, seed))

    @pytest.mark.parametrize("fill", [0.5, -1.0, 300.0])
    def test_odd_fills_take_the_reference(self, fill: float) -> None:
        assert not sample_windows.takes_fill(fill)

    def test_padding_of_its_own(self) -> None:
        sample = make_sample((23, 31), 3, padding=(4, 6))
        for seed in range(8):
            both(lambda seed=seed: make_large_scale_jittering((29, 17))(sample, seed))

    def test_other_parts_have_no_window(self) -> None:
        jitter = make_large_scale_jittering(17)
        assert jitter.window((9, 9), 1) is not None
        assert LargeScaleJitter(jitter.parts[:3]).window((9, 9), 1) is None
        assert LargeScaleJitter(jitter.parts[::-1]).window((9, 9), 1) is None


def write_every_kind(folder: Path) -> tuple[Path, Path]:
    """Write photos of odd sizes with polygons, runs as numbers and as text, crowds, and masks without a pixel."""
    from pycocotools import mask as coco_mask

    images, annotations = [], []
    for i, size in enumerate([(37, 53), (1, 1), (60, 1), (24, 40), (31, 17)]):
        images.append(image_row(i, size))
        mask = rectangle(size, 0, 0, *(max(1, s * 2 // 3) for s in size))
        blob = noise(size, 7)[..., 0] < 40
        text = coco_mask.encode(np.asfortranarray(blob.view(np.uint8)))["counts"].decode()
        w, h = size[1], size[0]
        star = [0.3 * w, 0.1 * h, 0.9 * w, 0.4 * h, 0.55 * w, 0.5 * h, 0.8 * w, 1.2 * h, 0.1 * w, 0.7 * h]
        for kind in (
            runs(mask),
            {"size": list(size), "counts": text},
            [star],
            [star, [0, 0, w / 2, 0, w / 2, h / 2], [1, 1, 2, 2]],
            [],
            runs(np.zeros(size, bool)),
            runs(mask),
        ):
            annotations.append(annotation_row(len(annotations), i, kind, iscrowd=int(len(annotations) % 7 == 6)))
    return write_coco(folder, images, annotations)


class TestCoco:
    def test_equals_the_sample_jittered(self, tmp_path: Path) -> None:
        paths = write_every_kind(tmp_path)
        kept = set()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dataset = CocoDetectionV2(*paths)
            for index in range(len(dataset)):
                for seed in range(12):
                    jitter = make_large_scale_jittering((29, 43), (0.1, 3.0), min_area_px=1 + 20 * (seed % 2))
                    sample = both(lambda i=index, s=seed, j=jitter: dataset.read_jittered(i, j, s))
                    assert_same(sample, jitter(dataset[index], seed))
                    kept.add(sample.num_instances)
        assert kept == {0, 1, 2, 3, 4}
        assert dataset.num_empty_masks >= len(dataset)

    @pytest.mark.parametrize(("min_area_px", "num"), [(0, 1), (1, 1), (54, 1), (55, 0)])
    def test_the_smallest_area_stays(self, tmp_path: Path, min_area_px: float, num: int) -> None:
        mask = runs(rectangle((19, 23), 3, 4, 9, 13))
        dataset = CocoDetectionV2(*write_coco(tmp_path, [image_row(1, (19, 23))], [annotation_row(5, 1, mask)]))
        jitter = make_large_scale_jittering((19, 23), (1, 1), min_area_px=min_area_px)
        assert both(lambda: dataset.read_jittered(0, jitter, 3)).num_instances == num

    def test_no_mask_of_the_size_of_the_photo(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        dataset = CocoDetectionV2(*write_many(tmp_path))
        monkeypatch.delattr(InstanceImages, "_instances")
        with use_backend("native"):
            dataset.read_jittered(3, make_large_scale_jittering(16), 1)
        with use_backend("reference"), pytest.raises(AttributeError):
            dataset.read_jittered(3, make_large_scale_jittering(16), 1)

    @pytest.mark.parametrize(
        "segmentation",
        [
            None,
            7,
            [[1, 2, 3]],
            [[1, 2, float("nan"), 4, 5, 6]],
            {"size": [9, 9], "counts": "0"},
            {"size": [23, 19], "counts": [7, 430]},
            {"size": [19, 23], "counts": "P"},
            {"size": [19, 23], "counts": [-1, 438]},
            {"size": [19, 23], "counts": [2**70]},
            {"size": [19, 23], "counts": 3},
        ],
    )
    def test_errors_are_the_same(self, tmp_path: Path, segmentation: Any) -> None:
        dataset = CocoDetectionV2(*write_coco(tmp_path, [image_row(1, (19, 23))], [annotation_row(5, 1, segmentation)]))
        with pytest.raises(DatasetError) as expected:
            dataset[0]
        with use_backend("native"), pytest.raises(DatasetError) as found:
            dataset.read_jittered(0, make_large_scale_jittering(16), 1)
        assert str(found.value) == str(expected.value)

    def test_transforms_and_subclasses_are_heard(self, tmp_path: Path) -> None:
        paths = write_many(tmp_path)

        class Inverted(CocoDetectionV2):
            def __getitem__(self, index: int) -> DenseSample:
                return invert(super().__getitem__(index))

        def invert(sample: DenseSample) -> DenseSample:
            image = tv_tensors.Image(255 - sample.image.as_subclass(torch.Tensor))
            return DenseSample.from_dict({**sample.to_dict(), "image": image})

        jitter = make_large_scale_jittering(16)
        expected = jitter(invert(CocoDetectionV2(*paths)[3]), 9)
        for dataset in (Inverted(*paths), CocoDetectionV2(*paths, transforms=invert)):
            assert_same(dataset.read_jittered(3, jitter, 9), expected)


def write_photo(folder: Path, size: tuple[int, int], name: str = "a.jpg", **options: Any) -> tuple[Path, Path]:
    """Write one smooth photo with one instance."""
    photos = folder / "photos"
    photos.mkdir()
    y, x = np.mgrid[: size[0], : size[1]]
    pixels = np.stack([255 * x / size[1], 255 * y / size[0], 128 + 0 * x], -1).astype(np.uint8)
    Image.fromarray(pixels).save(photos / name, **options)
    mask = rectangle(size, size[0] // 4, size[1] // 4, size[0] // 2, size[1] // 2)
    return write_coco(folder, [image_row(1, size, name)], [annotation_row(1, 1, runs(mask))])


OPTION = {"decode_reduced": True}


class TestReducedDecoding:
    @pytest.mark.parametrize(
        ("size", "at_least", "expected"),
        [
            ((240, 320), (240, 320), (240, 320)),
            ((240, 320), (121, 160), (240, 320)),
            ((240, 320), (120, 160), (120, 160)),
            ((240, 320), (70, 41), (120, 160)),
            ((240, 320), (59, 80), (60, 80)),
            ((240, 320), (1, 1), (30, 40)),
            ((236, 320), (1, 1), (59, 80)),
            ((235, 320), (1, 1), (235, 320)),
        ],
    )
    def test_the_smallest_that_is_aligned_and_large_enough(
        self, tmp_path: Path, size: Any, at_least: Any, expected: Any
    ) -> None:
        folder, _ = write_photo(tmp_path, size, quality=95)
        assert tuple(read_pixels(folder / "a.jpg", size, at_least).shape[1:]) == expected

    def test_other_formats_are_decoded_whole(self, tmp_path: Path) -> None:
        folder, _ = write_photo(tmp_path, (240, 320), "a.png")
        assert read_pixels(folder / "a.png", (240, 320), (1, 1)).shape == (3, 240, 320)

    def test_turned_photos(self, tmp_path: Path) -> None:
        exif = Image.Exif()
        exif[0x0112] = 6
        folder, _ = write_photo(tmp_path, (240, 320), exif=exif, quality=95)
        whole = read_pixels(folder / "a.jpg", (320, 240))
        reduced = read_pixels(folder / "a.jpg", (320, 240), (80, 60))
        assert reduced.shape == (3, 80, 60)
        means = whole.float().unflatten(2, (60, 4)).unflatten(1, (80, 4)).mean((2, 4))
        assert (reduced.float() - means).abs().max() < 4

    def test_another_size_is_an_error(self, tmp_path: Path) -> None:
        folder, _ = write_photo(tmp_path, (240, 320))
        with pytest.raises(DatasetError, match="expected 328 x 240 pixels as in the annotation file, got 320 x 240"):
            read_pixels(folder / "a.jpg", (240, 328), (1, 1))

    def test_only_the_image_differs_and_only_a_little(self, tmp_path: Path) -> None:
        dataset = CocoDetectionV2(*write_photo(tmp_path, (240, 320), quality=95))
        differs = 0
        for seed in range(12):
            jitters = [make_large_scale_jittering(64, decode_reduced=flag) for flag in (False, True)]
            plain, reduced = (both(lambda j=j, s=seed: dataset.read_jittered(0, j, s)) for j in jitters)
            assert (plain.image.float() - reduced.image.float()).abs().max() < 8
            differs += not torch.equal(plain.image, reduced.image)
            assert_same(DenseSample.from_dict({**reduced.to_dict(), "image": plain.image}), plain)
        assert differs >= 6

    def test_off_by_default(self, tmp_path: Path) -> None:
        paths = write_photo(tmp_path, (240, 320))
        one, other = (create_coco_dataloader(*paths, batch_size=1, size=64, **option) for option in ({}, OPTION))
        assert not torch.equal(next(iter(one)).images, next(iter(other)).images)
        with pytest.raises(ValueError, match="got one in which jitter is"):
            other.load_state_dict(one.state_dict())

    def test_datasets_that_cannot(self) -> None:
        with pytest.raises(ValueError, match=r"decode_reduced: expected a dataset with read_jittered.*got list"):
            create_coco_dataloader(dataset=[make_sample()], batch_size=1, **OPTION)  # type: ignore[arg-type]


def test_real_photos(test_data: Path) -> None:
    path = test_data / "tiny_coco" / "annotations" / "instances_train2017.json"
    dataset = CocoDetectionV2(test_data / "tiny_coco" / "train2017", path)
    jitter = make_large_scale_jittering(256)
    for index in range(len(dataset)):
        both(lambda i=index: dataset.read_jittered(i, jitter, i + 1))
