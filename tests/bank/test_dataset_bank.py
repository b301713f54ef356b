"""A bank over a dataset gives the crops that a build of that dataset would, without writing any."""

from __future__ import annotations

import pickle
from dataclasses import fields, replace
from functools import partial
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from build_cases import Listed, build
from photo_folder import NAMES
from torch.utils.data import Subset
from torchvision import tv_tensors

from kept_scenes import KeptScenes
from segpaste import CocoDetectionV2
from segpaste.bank import (
    BankError,
    BankSampler,
    Crop,
    DatasetBank,
    InstanceBank,
    Selection,
    create_bank_dataloader,
    open_bank,
    stage_bank_batch,
)
from segpaste.bank.building.dataset_bank import objects_to_paste
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.types import DenseSample

of_all = partial(DatasetBank, selection=objects_to_paste(whole_only=False))
"""Of every object: many of these samples touch the border of their image."""

SCENES = KeptScenes(6, SceneConfig(height=40, width=56), seed=3, keypoints=True)
SIZE = (24, 20)
SAME = Selection(min_area_px=1, min_part_frac=0.0)


class Numbered:
    """Scenes with the methods that a build asks for beside samples."""

    def __len__(self) -> int:
        return len(SCENES)

    def __getitem__(self, index: int) -> DenseSample:
        return SCENES[index]

    def image_id(self, index: int) -> int:
        return 10 + index

    def annotation_ids(self, index: int) -> range:
        return range(1, 100)

    def left_out(self, index: int) -> dict[str, int]:
        return {}


class Counted(SceneDataset):
    """Scenes that count how often one is rendered."""

    num_reads = 0

    def __getitem__(self, index: int) -> DenseSample:
        self.num_reads += 1
        return super().__getitem__(index)


def test_crops_of_shrunk_images_are_those_of_a_build(tmp_path: Path) -> None:
    """In both, an object shrinks with its image; the version says so."""
    summary = build(
        Numbered(), tmp_path / "bank", class_names=SCENES.class_names, crop_size=SIZE, selection=SAME, fit_into=(20, 40)
    )
    built = open_bank(tmp_path / "bank")
    cut = of_all(SCENES, crop_size=SIZE, fit_into=(20, 40))
    whole = of_all(SCENES, crop_size=SIZE)
    assert summary.num_crops == len(cut) == len(whole)
    for i in range(len(cut)):
        for name in ("alpha", "image", "scale", "source_size", "source_box", "intrinsics"):
            assert np.array_equal(getattr(built[i], name), getattr(cut[i], name)), name
        assert cut[i].source_size.tolist() == [20, 28]  # type: ignore[union-attr]
        assert cut[i].alpha.sum() < whole[i].alpha.sum()
    assert cut.version != whole.version
    assert pickle.loads(pickle.dumps(cut)).fit_into == (20, 40)
    assert cut.resized((30, 30)).fit_into == (20, 40)
    with pytest.raises(BankError, match="fit_into: expected"):
        of_all(SCENES, fit_into=(0, 4))


def squares(sides: list[int], labels: list[int]) -> DenseSample:
    """An image of grey with squares side by side, whose value is their side."""
    image = torch.zeros(3, 20, 20 * max(len(sides), 1), dtype=torch.uint8)
    masks = torch.zeros(len(sides), *image.shape[1:], dtype=torch.bool)
    for n, side in enumerate(sides):
        masks[n, :side, 20 * n : 20 * n + side] = True
        image[:, masks[n]] = side
    return DenseSample.from_masks(image, masks, torch.tensor(labels, dtype=torch.int64))


class Squares:
    """Images of squares, given by their sides and labels."""

    class_names = ("a", "b", "c")

    def __init__(self, *images: tuple[list[int], list[int]]) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> DenseSample:
        return squares(*self.images[index])


class TestCrops:
    @pytest.mark.parametrize("size", [SIZE, (64, 64), (5, 3)], ids=str)
    def test_are_those_of_a_build(self, size: tuple[int, int], tmp_path: Path) -> None:
        build(Numbered(), tmp_path / "bank", class_names=SCENES.class_names, crop_size=size, selection=SAME)
        built, cut = (
            open_bank(tmp_path / "bank"),
            of_all(Numbered(), class_names=SCENES.class_names, crop_size=size),
        )
        by_ids = {(crop.image_id, crop.annotation_id): crop for crop in map(built.__getitem__, range(len(built)))}
        assert isinstance(cut, InstanceBank)
        assert len(by_ids) >= 20
        assert cut.layout.groups == built.layout.groups
        assert cut.class_names == built.class_names
        for n in range(len(cut)):
            crop = cut[n]
            if crop.alpha.any():
                assert_equal(crop, by_ids[crop.image_id, crop.annotation_id])
        if size == (64, 64):  # where no object vanishes, they are the same crops
            assert cut.class_frequencies == built.class_frequencies

    def test_of_photos_are_those_of_a_build(self, test_data: Path, tmp_path: Path) -> None:
        folder = test_data / "tiny_coco"
        photos = CocoDetectionV2(folder / "val2017", folder / "annotations" / "instances_val2017.json")
        subset = _First(photos, 6)
        build(subset, tmp_path / "bank", class_names=photos.class_names, crop_size=(48, 48), selection=SAME)
        built, cut = (
            open_bank(tmp_path / "bank"),
            of_all(subset, class_names=photos.class_names, crop_size=(48, 48)),
        )
        assert cut.class_frequencies == built.class_frequencies
        pixels = {crop.image.tobytes() + crop.alpha.tobytes() for crop in map(built.__getitem__, range(len(built)))}
        assert pixels == {crop.image.tobytes() + crop.alpha.tobytes() for crop in map(cut.__getitem__, range(len(cut)))}

    def test_labels_of_a_reader_need_no_read(self) -> None:
        class Labelled(Squares):
            num_reads = 0

            def __getitem__(self, index: int) -> DenseSample:
                self.num_reads += 1
                return super().__getitem__(index)

            def instance_labels(self, index: int) -> list[int]:
                return self.images[index][1]

        dataset = Labelled(([3, 4], [0, 2]), ([5], [2]), ([], []))
        bank = of_all(dataset, crop_size=(8, 8))
        assert dataset.num_reads == 1  # for the fields that samples have
        assert bank.class_frequencies == (1, 0, 2)
        assert [int(bank[n].image.max()) for n in range(3)] == [3, 4, 5]

    def test_an_object_that_the_reader_left_out_is_another_of_its_class(self) -> None:
        class Promises(Squares):
            def instance_labels(self, index: int) -> list[int]:
                return [0, 0, 1] if index == 0 else self.images[index][1]

        bank = of_all(Promises(([3, 4], [0, 1]), ([5, 6], [0, 1])), crop_size=(8, 8))
        assert bank.class_frequencies == (3, 2, 0)
        shown = [int(bank[n].image.max()) for n in range(5)]
        assert shown[0] == 3
        assert shown[1] in (3, 5)
        assert shown[2:] == [4, 5, 6]
        assert shown == [int(bank[n].image.max()) for n in range(5)]

    def test_what_the_selection_rejects_is_another_of_its_class(self) -> None:
        dataset = Squares(([3, 9, 8], [0, 0, 1]), ([10], [0]))
        bank = DatasetBank(dataset, crop_size=(12, 12), selection=Selection(min_area_px=50))
        shown = [int(bank[n].image.max()) for n in range(4)]
        assert shown[0] in (9, 10)
        assert shown[1:] == [9, 8, 10]
        assert [bank[n].class_id for n in range(4)] == [0, 0, 1, 0]

    def test_a_class_without_any_object_left_is_an_empty_crop(self) -> None:
        bank = DatasetBank(Squares(([3, 9], [2, 0])), crop_size=(12, 12), selection=Selection(min_area_px=50))
        crop = bank[0]
        assert not crop.alpha.any()
        assert crop.class_id == 2
        staged = stage_bank_batch(bank, [[0, 1]])
        assert staged.boxes[0].tolist() == [[0, 0, 0, 0], staged.boxes[0, 1].tolist()]


class TestReads:
    def test_some_columns_in_any_order(self) -> None:
        bank = of_all(SCENES, crop_size=SIZE)
        indices = [3, -1, 3, 0, len(bank) - 1]
        columns = bank.read(np.array(indices), ["alpha", "class_id", "scale"])
        assert list(columns) == ["alpha", "class_id", "scale"]
        for n, index in enumerate(indices):
            np.testing.assert_array_equal(columns["alpha"][n], bank[index].alpha)
            assert columns["class_id"][n] == bank[index].class_id == bank.crop_class_ids()[index]

    def test_outside(self) -> None:
        bank = of_all(SCENES, crop_size=SIZE)
        for index in (len(bank), -len(bank) - 1):
            with pytest.raises(IndexError, match=f"expected an index below {len(bank)}"):
                bank[index]
        with pytest.raises(KeyError):
            bank.read([0], ["colour"])

    def test_image_ids_need_no_read(self) -> None:
        dataset = Counted(4, SCENES.config)
        bank = of_all(dataset, crop_size=SIZE)
        before = dataset.num_reads
        ids = bank.read(range(len(bank)), ["image_id"])["image_id"]  # type: ignore[arg-type]
        assert dataset.num_reads == before
        assert ids.tolist() == [bank[n].image_id for n in range(len(bank))]
        BankSampler(bank, mode="instance_aware")

    def test_an_image_is_read_once_for_its_crops(self) -> None:
        dataset = Counted(4, SCENES.config)
        bank = of_all(dataset, crop_size=SIZE)
        before = dataset.num_reads
        bank.read(np.random.default_rng(0).permutation(len(bank)))
        assert dataset.num_reads - before == 4

    def test_memory_is_bounded(self) -> None:
        dataset = Counted(6, SCENES.config)
        size = of_all(dataset, crop_size=SIZE).layout.dtype.itemsize
        bank = of_all(dataset, crop_size=SIZE, cache_bytes=3 * size)
        wanted = [0, 9, 18, 0, 9, 18]
        bank.read(wanted)
        before = dataset.num_reads
        bank.read(wanted)
        assert dataset.num_reads == before, "what is kept is not read again"
        bank.read(range(len(bank)))  # type: ignore[arg-type]
        assert len(bank._rows) == 3
        for index in (0, 1, 2, 0, 3):
            bank[index]
        assert list(bank._rows) == [2, 0, 3], "those that were read last are kept"
        bank.close()
        assert not bank._rows

    def test_nothing_kept(self) -> None:
        bank = of_all(SCENES, crop_size=SIZE, cache_bytes=0)
        assert_equal(bank[1], bank[1])
        assert not bank._rows


class TestVersion:
    def test_follows_what_decides_the_crops(self) -> None:
        options: list[dict[str, Any]] = [{}, {"crop_size": (9, 9)}, {"margin_frac": 0.5}, {"selection": Selection()}]
        versions = {of_all(SCENES, **{"crop_size": SIZE, **given}).version for given in options}
        versions.add(of_all(SceneDataset(7, SCENES.config, seed=3, keypoints=True), crop_size=SIZE).version)
        versions.add(of_all(SCENES, crop_size=SIZE, class_names=[f"c{n}" for n in range(20)]).version)
        assert len(versions) == 6
        assert of_all(SCENES, crop_size=SIZE).version in versions


class TestRefuses:
    def test_no_names(self) -> None:
        with pytest.raises(BankError, match="expected class_names, since a Listed has none"):
            of_all(Listed(3))
        assert of_all(Listed(3), class_names=NAMES).class_frequencies[0] == 3

    def test_no_objects(self) -> None:
        with pytest.raises(BankError, match="expected a dataset with objects, got none"):
            of_all(Squares(([], []), ([], [])))
        with pytest.raises(BankError, match="expected a dataset with objects, got none"):
            of_all(Squares())

    def test_samples_of_another_class(self) -> None:
        with pytest.raises(
            BankError, match=r"dataset\[0\]: expected a DenseSample, got tuple; convert it in the dataset"
        ):
            of_all([(1, 2)], class_names=NAMES)

    def test_labels_beyond_the_names(self) -> None:
        with pytest.raises(BankError, match="expected labels from 0 to 2, since there are 3 class names, got 0 to 3"):
            of_all(Squares(([4, 4], [0, 3])))

    def test_samples_that_nothing_is_cut_out_of(self) -> None:
        class Floats(Squares):
            def __getitem__(self, index: int) -> DenseSample:
                return replace(super().__getitem__(index), image=tv_tensors.Image(torch.zeros(3, 20, 20)))

        with pytest.raises(BankError, match=r"expected images of uint8 \[3, H, W\], got torch.float32"):
            of_all(Floats(([4], [0])))

        class Boxes(Squares):
            def __getitem__(self, index: int) -> DenseSample:
                return replace(super().__getitem__(index), instance_masks=None, instance_ids=None)

        with pytest.raises(BankError, match="expected samples with instance_masks, got none"):
            of_all(Boxes(([4], [0])))

    def test_transforms(self) -> None:
        dataset: Any = Squares(([4], [0]))
        dataset.transforms = lambda sample: sample
        for given in (dataset, Subset(dataset, [0])):
            with pytest.raises(BankError, match="expected a dataset without transforms"):
                of_all(given)
        dataset.transforms = None
        assert len(of_all(dataset)) == 1

    def test_names_with_gaps(self) -> None:
        with pytest.raises(BankError, match=r"expected class_names of 0 to 1, got \[0, 2\]"):
            of_all(Squares(([4], [0])), class_names={0: "a", 2: "b"})


class TestParts:
    """A `Subset` has the methods of its dataset."""

    def test_names_labels_and_version(self) -> None:
        class Labelled(Squares):
            num_reads = 0

            def __getitem__(self, index: int) -> DenseSample:
                self.num_reads += 1
                return super().__getitem__(index)

            def instance_labels(self, index: int) -> torch.Tensor:
                return torch.tensor(self.images[index][1])

            def image_id(self, index: int) -> int:
                return 100 + index

        dataset = Labelled(*[([side, side + 1], [0, 0]) for side in range(3, 9)])
        banks = [of_all(Subset(dataset, part), crop_size=(9, 9)) for part in ([4, 1], [5, 0], [4, 1])]
        assert dataset.num_reads == 3
        assert banks[0].class_names == ("a", "b", "c")
        assert [int(banks[0][n].image.max()) for n in range(4)] == [7, 8, 4, 5]
        assert [banks[0][n].image_id for n in range(4)] == [104, 104, 101, 101]
        assert banks[0].version == banks[2].version != banks[1].version

    def test_parts_of_a_dataset_without_ids_have_versions_of_their_own(self) -> None:
        dataset = Squares(([4], [0]), ([5], [0]))
        one, other = (of_all(Subset(dataset, [n]), crop_size=(9, 9)) for n in range(2))
        assert one.version != other.version

    def test_ids_that_are_no_integers(self) -> None:
        class Named(Squares):
            def image_id(self, index: int) -> str:
                return f"photo {index}"

        bank = of_all(Named(([4], [0]), ([5, 6], [0, 1])), crop_size=(9, 9))
        assert [bank[n].image_id for n in range(3)] == [0, 1, 1]

    def test_names_by_label(self) -> None:
        assert of_all(Squares(([4], [0])), class_names={1: "b", 0: "a"}).class_names == ("a", "b")


class TestProcesses:
    def test_workers_read_the_same(self, start_method: BaseContext) -> None:
        bank = of_all(SCENES, crop_size=SIZE)

        def loader(**options: Any) -> Any:
            return create_bank_dataloader(bank, batch_size=2, crops_per_target=3, steps=4, **options)

        shared = loader(num_workers=2, multiprocessing_context=start_method)
        for one, other in zip(loader(), shared, strict=True):
            for name in ("images", "alphas", "class_ids", "crop_idx", "depth", "boxes"):
                assert torch.equal(getattr(one, name), getattr(other, name)), name

    def test_pickles_without_crops(self) -> None:
        bank = of_all(SCENES, crop_size=SIZE)
        bank.read(range(len(bank)))  # type: ignore[arg-type]
        text = pickle.dumps(bank)
        assert len(text) < 40 * len(bank) + 4000
        assert_equal(pickle.loads(text)[5], bank[5])


class _First:
    """The first photos of a dataset."""

    def __init__(self, photos: CocoDetectionV2, num: int) -> None:
        self.photos, self.num = photos, num

    def __len__(self) -> int:
        return self.num

    def __getitem__(self, index: int) -> DenseSample:
        return self.photos[index]

    def __getattr__(self, name: str) -> Any:
        if name == "photos":
            raise AttributeError(name)
        return getattr(self.photos, name)


def assert_equal(one: Crop, other: Crop) -> None:
    for field in fields(Crop):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name), err_msg=field.name)
