"""`segpaste.viz.show`: every structure is recognised, and drawn pixel by pixel as slow loops expect it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import batch_cases
import numpy as np
import pytest
import torch
from batch_cases import CASES, HEIGHT, LABELS, MEAN, STD, WIDTH, expected_picture
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F
from viz_cases import full_sample

from samples import Array, make_batch
from segpaste import viz
from segpaste.targets import TARGETS, yolo
from segpaste.viz import palette
from segpaste.viz.showing import OWN

GAP = 10


def tile(page: Image.Image, b: int, size: tuple[int, int] = (HEIGHT, WIDTH), left: int | None = None) -> Array:
    """The b-th of images side by side, or the one that begins at ``left``."""
    x = GAP + b * (WIDTH + GAP) if left is None else left
    return np.asarray(page)[GAP : GAP + size[0], x : x + size[1]]


def drawn(batch: Any, **options: Any) -> Image.Image:
    """Return the picture at one pixel per pixel."""
    return viz.show(batch, tile_px=WIDTH, **options)


def is_own(batch: Any) -> bool:
    """Return whether a batch is a container of segpaste, or a list of samples."""
    return type(batch[0] if isinstance(batch, list) else batch).__module__.startswith("segpaste.types")


class TestStructures:
    @pytest.mark.parametrize("name", CASES)
    def test_pixels_are_those_of_slow_loops(self, name: str) -> None:
        case = CASES[name]()
        page = drawn(case.batch, **case.options)
        left = GAP
        for b in range(3):
            expected = expected_picture(b, case)
            found = tile(page, b, expected.shape[:2], left).astype(int)
            assert np.abs(found - expected).max() <= case.tolerance
            left += expected.shape[1] + GAP

    @pytest.mark.parametrize("name", CASES)
    def test_one_structure_matches(self, name: str) -> None:
        assert sum(target.recognise(CASES[name]().batch) for target in TARGETS) == (not is_own(CASES[name]().batch))

    def test_every_structure_has_a_case(self) -> None:
        batches = [make().batch for make in CASES.values()] + [batch_cases.sample(0)]
        batches.append(next(zip(*batch_cases.torchvision(), strict=True)))
        batches.append(batch_cases.albumentations()[0])
        assert all(any(target.recognise(batch) for batch in batches) for target in TARGETS)

    def test_a_single_sample(self) -> None:
        page = drawn(batch_cases.sample(0))
        assert np.array_equal(tile(page, 0), expected_picture(0, CASES["ragged"]()))

    def test_a_single_pair(self) -> None:
        page = drawn(next(zip(*batch_cases.torchvision(), strict=True)))
        expected = expected_picture(0, CASES["torchvision"]())
        assert np.array_equal(tile(page, 0, expected.shape[:2]), expected)

    @pytest.mark.parametrize("form", ["XYWH", "CXCYWH"])
    def test_boxes_of_other_formats_are_drawn_where_they_are(self, form: str) -> None:
        images, targets = batch_cases.torchvision()
        size = images[0].shape[-2:]
        boxes = tv_tensors.BoundingBoxes(targets[0]["boxes"], format="XYXY", canvas_size=tuple(size))
        moved = F.convert_bounding_box_format(boxes, new_format=form)
        page = drawn(([images[0]], [{**targets[0], "boxes": moved}]))
        assert np.array_equal(np.asarray(page), np.asarray(drawn(([images[0]], [targets[0]]))))

    @pytest.mark.parametrize("form", ["coco", "cxcywh", "albumentations", "yolo"])
    def test_a_dictionary_of_albumentations_in_each_format(self, form: str) -> None:
        page = drawn(batch_cases.albumentations(bbox_format=form)[0], bbox_format=form)
        expected = drawn(batch_cases.albumentations()[0], bbox_format="pascal_voc")
        assert np.array_equal(np.asarray(page), np.asarray(expected))

    @pytest.mark.parametrize(
        ("changes", "options", "message"),
        [
            ({}, {}, "expected bbox_format because there are bboxes, got None; give .*: pascal_voc, coco"),
            ({}, {"bbox_format": "xyxy"}, "expected bbox_format to be one of .*, got 'xyxy'"),
            ({"labels": ["a", "b"]}, {"bbox_format": "coco"}, "expected numbers in 'labels', got 'a'"),
            (
                {"labels": [1], "bboxes": [[0, 0, 4, 4]]},
                {"bbox_format": "coco"},
                "mask for each of 1 bboxes, got 2",
            ),
        ],
    )
    def test_dictionaries_that_do_not_fit(self, changes: Any, options: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            viz.show({**batch_cases.albumentations()[0], **changes}, **options)

    def test_inputs_without_a_pixel_mask_show_the_mean_colour(self) -> None:
        page = drawn(batch_cases.mask_labels(pixel_mask=False), mean=MEAN, std=STD)
        assert (np.abs(tile(page, 1)[-1, -1] - 255 * np.array(MEAN)) <= 1).all()

    @pytest.mark.parametrize(
        ("batch", "came"),
        [
            (torch.zeros(2, 3, 8, 8), "got a Tensor"),
            ([], "got a list of 0"),
            (([torch.zeros(3, 8, 8)], []), "got a tuple of 2, first a list of 1, first a Tensor"),
            (([torch.zeros(3, 8, 8)] * 2, [{"boxes": 0}] * 2), "got a tuple of 2"),
            ({"img": 0, "cls": 0}, "got a dict with img, cls"),
            ({"pixel_values": 0, "labels": torch.zeros(2, 8, 8)}, "got a dict with pixel_values, labels"),
            (None, "got a NoneType"),
        ],
    )
    def test_anything_else_is_refused_with_the_list(self, batch: Any, came: str) -> None:
        with pytest.raises(TypeError, match=came) as caught:
            viz.show(batch)
        assert all(name in str(caught.value) for name in [OWN, *(target.name for target in TARGETS)])

    @pytest.mark.parametrize("num_targets", [1, 4])
    def test_each_image_needs_a_target(self, num_targets: int) -> None:
        images, targets = batch_cases.torchvision()
        came = f"expected one target per image, got 3 images and {num_targets} targets; give an image without objects"
        with pytest.raises(ValueError, match=came):
            viz.show((images, (targets * 2)[:num_targets]))

    @pytest.mark.parametrize("masks", ["none", "overlap", "stacked"])
    @pytest.mark.parametrize("wrong", [-1.0, 3.0, float("nan")])
    def test_each_object_is_of_an_image_of_the_batch(self, masks: str, wrong: float) -> None:
        batch = batch_cases.yolo(masks)
        batch["batch_idx"][2] = wrong
        came = f"expected batch_idx from 0 to 2, .* in the batch of 3, got {wrong:g}; number the images"
        with pytest.raises(ValueError, match=came):
            viz.show(batch)

    def test_an_ambiguous_dictionary_is_refused(self) -> None:
        both = batch_cases.mask_labels() | batch_cases.detr()
        with pytest.raises(TypeError, match="expected a batch with one of these structures") as caught:
            viz.show(both, mean=MEAN, std=STD)
        assert str(caught.value).count("\n-") == 2


class TestColours:
    def test_values_that_the_normalisation_does_not_explain(self) -> None:
        with pytest.raises(ValueError, match=r"expected images in 0\.\.1 after mean and std were undone"):
            viz.show(batch_cases.detr(), mean=[2, 2, 2], std=STD)

    @pytest.mark.parametrize("make", [batch_cases.detr, batch_cases.mask_labels])
    def test_models_of_transformers_need_a_normalisation(self, make: Any) -> None:
        with pytest.raises(ValueError, match="expected the mean and std that pixel_values were normalised with"):
            viz.show(make())

    def test_one_without_the_other(self) -> None:
        with pytest.raises(ValueError, match="expected both mean and std"):
            viz.show(batch_cases.detr(), mean=MEAN)

    def test_another_number_of_channels(self) -> None:
        with pytest.raises(ValueError, match="3 numbers each, one per channel, got 1 and 1"):
            viz.show(batch_cases.detr(), mean=[0.5], std=[0.5])

    def test_floats_in_255(self) -> None:
        images, targets = batch_cases.torchvision()
        batch = [image * 255 for image in images], targets
        with pytest.raises(ValueError, match="pass the range of this image"):
            viz.show(batch)
        assert np.array_equal(drawn(batch, value_range=(0, 255)), drawn((images, targets)))

    def test_boxes_in_pixels_where_fractions_are_due(self) -> None:
        batch = batch_cases.detr()
        batch["labels"][0]["boxes"] *= WIDTH
        with pytest.raises(ValueError, match="as fractions of the image"):
            viz.show(batch, mean=MEAN, std=STD)


class TestPage:
    def test_only_the_first_images_are_drawn(self) -> None:
        images, targets = batch_cases.torchvision()
        targets[1]["labels"] = torch.zeros(9)  # would be refused
        page = drawn((images, targets), max_images=1)
        assert np.array_equal(tile(page, 0), expected_picture(0, CASES["torchvision"]()))
        assert page.width == WIDTH + 2 * GAP
        with pytest.raises(ValueError, match="max_images: expected at least 1"):
            viz.show((images, targets), max_images=0)

    @pytest.mark.parametrize("tile_px", [0, -5])
    def test_tiles_have_a_pixel(self, tile_px: int) -> None:
        with pytest.raises(ValueError, match=f"tile_px: expected at least 1, got {tile_px}"):
            viz.show(batch_cases.ragged(), tile_px=tile_px)

    def test_small_images_are_enlarged_and_large_ones_shrunk(self) -> None:
        batch = batch_cases.ragged()
        assert viz.show(batch, tile_px=2 * WIDTH, max_images=1).width == 2 * WIDTH + 2 * GAP
        assert viz.show(batch, tile_px=WIDTH // 2, max_images=1).width == WIDTH // 2 + 2 * GAP

    @pytest.mark.parametrize(("num", "columns"), [(1, 1), (2, 2), (3, 3), (4, 4), (5, 3), (6, 3), (8, 4)])
    def test_rows_are_filled(self, num: int, columns: int) -> None:
        page = drawn([batch_cases.sample(2)] * num)
        assert page.width == columns * (WIDTH + GAP) + GAP

    def test_maps_stand_beside_their_image(self) -> None:
        sample = full_sample((HEIGHT, WIDTH))
        bare = replace(sample, depth=None, depth_valid=None, metric_depth=False, normals=None)
        page = np.asarray(drawn([sample, bare]))
        assert page.shape[1] == 5 * (WIDTH + GAP) + GAP
        top = GAP + 20  # under the headings
        columns = [GAP + i * (WIDTH + GAP) for i in range(5)]
        views = [viz.draw_panoptic(sample), viz.draw_semantic(sample), viz.draw_depth(sample), viz.draw_normals(sample)]
        for x, view in zip(columns[1:], views, strict=True):
            assert np.array_equal(page[top : top + HEIGHT, x : x + WIDTH], view)
        second = top + HEIGHT + 20 + GAP
        assert np.array_equal(page[second : second + HEIGHT, columns[1] :][:, :WIDTH], viz.draw_panoptic(bare))
        missing = page[second : second + HEIGHT, columns[3] :][:, :WIDTH]
        assert set(np.unique(missing)) == {146, 168}  # hatched

    def test_names_are_drawn(self) -> None:
        batch = batch_cases.ragged()
        pages = [
            viz.show(batch, tile_px=4 * WIDTH, class_names=names)
            for names in (None, {3: "horse"}, ["", "", "", "horse"])
        ]
        assert not np.array_equal(pages[0], pages[1])
        assert np.array_equal(pages[1].crop((0, 0, 4 * WIDTH, 80)), pages[2].crop((0, 0, 4 * WIDTH, 80)))

    def test_an_empty_batch(self) -> None:
        with pytest.raises(ValueError, match="expected at least one image"):
            viz.show(make_batch(0))

    def test_nothing_is_drawn_at_random(self) -> None:
        before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
        one, other = (drawn(batch_cases.ragged()) for _ in range(2))
        assert np.array_equal(one, other)
        assert torch.equal(torch.get_rng_state(), before[0])
        assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002

    def test_a_notebook_shows_it(self) -> None:
        assert drawn(batch_cases.ragged())._repr_png_()


class TestPasted:
    def test_pastes_of_a_padded_batch_are_outlined(self) -> None:
        batch = batch_cases.ragged().to_padded(4)
        pasted = torch.zeros(3, 4, dtype=torch.bool)
        pasted[0, 1] = pasted[2, 3] = True  # slot 3 holds nothing
        plain, marked = tile(drawn(batch), 0), tile(drawn(batch, pasted=pasted), 0)
        mask = batch_cases.masks_of_image(0)[1]
        frame = np.zeros_like(mask)
        frame[20:36, 28:48] = True
        frame[21:35, 29:47] = False  # in the colour of pastes, half transparent
        edge = np.zeros_like(mask)
        for y, x in np.argwhere(mask & ~frame):
            edge[y, x] = batch_cases.at_edge(mask, y, x)
        assert edge.any()
        assert (marked[edge] == palette.HIGHLIGHT).all()
        assert not (plain == palette.HIGHLIGHT).all(-1).any()
        assert np.array_equal(marked[:6], plain[:6])  # below it is the name

    def test_other_structures_take_a_list(self) -> None:
        flags = [torch.tensor([False, True]), torch.tensor([False]), torch.zeros(0, dtype=torch.bool)]
        padded = torch.tensor([[False, True, False, False]] + 2 * [[False] * 4])
        expected = drawn(batch_cases.ragged().to_padded(4), pasted=padded)
        assert np.array_equal(drawn(batch_cases.ragged(), pasted=flags), expected)

    def test_flags_that_do_not_fit(self) -> None:
        with pytest.raises(ValueError, match=r"pasted: expected bool \[3, 4\]"):
            viz.show(batch_cases.ragged().to_padded(4), pasted=torch.zeros(3, 5, dtype=torch.bool))
        with pytest.raises(ValueError, match="pasted: expected a list of 3 flags"):
            viz.show(batch_cases.ragged(), pasted=[torch.zeros(2, dtype=torch.bool)])
        with pytest.raises(ValueError, match=r"pasted: expected bool \[2\]"):
            viz.show(batch_cases.ragged(), pasted=[torch.zeros(3, dtype=torch.bool)] * 3)


class TestKeypoints:
    POINTS = torch.tensor([[[10.5, 10.5, 2.0], [20.5, 10.5, 1.0], [70.0, 10.0, 2.0], [0.0, 0.0, 0.0]]])

    def expect_points(self, page: Image.Image) -> None:
        picture = tile(page, 0)
        assert tuple(picture[10, 10]) == palette.PAPER  # the middle of a disc
        assert tuple(picture[10, 20]) not in (palette.PAPER, palette.INK)  # and of a ring
        assert (picture[8:13, 18:23] == palette.PAPER).all(-1).any()
        assert not (picture[:, 30:] == palette.PAPER).all(-1).any()

    def test_of_torchvision(self) -> None:
        target = {
            "boxes": torch.tensor([[2.0, 2.0, 24.0, 24.0]]),
            "labels": torch.tensor([1]),
            "keypoints": self.POINTS,
        }
        self.expect_points(drawn(([torch.full((3, HEIGHT, WIDTH), 0.4)], [target])))

    @pytest.mark.parametrize("columns", [2, 3])
    def test_of_ultralytics(self, columns: int) -> None:
        points = self.POINTS.clone()
        points[..., :2] /= torch.tensor([WIDTH, HEIGHT])
        batch = {
            "img": torch.full((1, 3, HEIGHT, WIDTH), 100, dtype=torch.uint8),
            "cls": torch.zeros(1, 1),
            "bboxes": torch.tensor([[0.25, 0.3, 0.4, 0.5]]),
            "batch_idx": torch.zeros(1),
            "keypoints": points[..., :columns],
        }
        if columns == 3:
            self.expect_points(drawn(batch))
        else:  # without visibility all points are visible
            picture = tile(drawn(batch), 0)
            assert tuple(picture[10, 10]) == tuple(picture[10, 20]) == palette.PAPER


class TestFiles:
    def test_png_and_jpeg(self, tmp_path: Path) -> None:
        for name in ("new/one.png", "two.jpg", "three.JPEG"):
            page = drawn(batch_cases.ragged(), path=tmp_path / name)
            with Image.open(tmp_path / name) as saved:
                assert saved.size == page.size
                difference = np.abs(np.asarray(saved.convert("RGB")).astype(int) - np.asarray(page))
                assert difference.mean() < (0.5 if name.endswith("png") else 12)
                assert name.endswith("png") == (difference.max() == 0)

    def test_another_suffix_is_refused_before_anything_is_drawn(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"expected path to end in \.png or \.jpg"):
            viz.show(None, path=tmp_path / "batch.gif")
        assert not list(tmp_path.iterdir())


class TestMasksOfUltralytics:
    @given(st.integers(1, 5).flatmap(lambda b: st.tuples(st.just(b), st.lists(st.integers(0, b - 1), max_size=7))))
    def test_maps_are_told_from_stacks(self, case: tuple[int, list[int]]) -> None:
        """This also holds if there are as many images as objects, as long as every object has a pixel."""
        batch_size, rows = case[0], torch.tensor(sorted(case[1]), dtype=torch.int64)
        stacked = torch.zeros(len(rows), 2, 8, dtype=torch.uint8)
        maps = torch.zeros(batch_size, 2, 8, dtype=torch.uint8)
        for n, b in enumerate(rows.tolist()):
            stacked[n, 0, n] = 1
            maps[b, 0, n] = int((rows[:n] == b).sum()) + 1
        assert yolo.is_overlap(maps, rows, batch_size)
        one_each = rows.tolist() == list(range(batch_size))  # both are the same then
        assert not yolo.is_overlap(stacked, rows, batch_size) or one_each

    def test_a_batch_without_objects(self) -> None:
        batch = {
            "img": torch.full((2, 3, HEIGHT, WIDTH), 100, dtype=torch.uint8),
            "cls": torch.zeros(0, 1),
            "bboxes": torch.zeros(0, 4),
            "batch_idx": torch.zeros(0),
        }
        for masks in (torch.zeros(2, 10, 14), torch.zeros(0, 10, 14)):
            page = drawn({**batch, "masks": masks})
            assert all((tile(page, b) == 100).all() for b in range(2))


def test_a_batch_stays_as_it_is() -> None:
    batch = batch_cases.ragged()
    drawn(batch)
    assert [row.tolist() for row in batch.labels] == LABELS
    assert torch.equal(batch.images[1].as_subclass(torch.Tensor), batch_cases.chw(1))
