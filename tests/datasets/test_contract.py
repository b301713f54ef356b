"""Every dataset has the members of the contract: readers, lists, foreign classes, subsets, concatenations, wrappers."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Subset

from segpaste.bank import DatasetBank, Selection, build_bank, open_bank
from segpaste.datasets import AnnotatedDataset, DatasetWrapper, JoinedPhotos, SceneConfig, SceneDataset, check_dataset
from segpaste.datasets.annotations import ATTRIBUTES, Annotations
from segpaste.datasets.contract import OF_IMAGE
from segpaste.datasets.views import annotated
from segpaste.types import DenseSample

SCENES = SceneDataset(3, SceneConfig(height=48, width=64), seed=3)
SAMPLES = [DenseSample.from_masks(s.image, s.instance_masks, s.labels) for s in (SCENES[i] for i in range(3))]


class Own(AnnotatedDataset):
    """The smallest dataset of one's own."""

    class_names = SCENES.class_names

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> DenseSample:
        return SAMPLES[index]


class Foreign:
    """A class that knows nothing of the contract, with some members of it."""

    class_names: ClassVar = list(SCENES.class_names)
    transforms = None

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> DenseSample:
        return SAMPLES[index]

    def image_id(self, index: int) -> int:
        return 70 + index

    def dataset_idx(self, index: int) -> int:
        return index % 2


def answers(dataset: AnnotatedDataset, index: int) -> dict[str, Any]:
    """Return what every member says of a sample."""
    asked = {name: getattr(dataset, name) for name in OF_IMAGE if name not in ("place_of", "photo_frame")}
    return {name: str(method(index)) for name, method in asked.items()}


@pytest.mark.parametrize("dataset", [Own(), SCENES], ids=["own", "scenes"])
def test_a_wrapper_says_what_its_dataset_says(dataset: AnnotatedDataset) -> None:
    wrapper = DatasetWrapper(dataset)
    assert len(wrapper) == len(dataset)
    assert [answers(wrapper, i) for i in range(3)] == [answers(dataset, i) for i in range(3)]
    assert {name: getattr(wrapper, name) for name in ATTRIBUTES} == {n: getattr(dataset, n) for n in ATTRIBUTES}
    assert (wrapper.categories, wrapper.tables(), wrapper.searched_folders()) == (dataset.categories, {}, ())
    assert wrapper.place_of(1) == (dataset, 1)
    assert torch.equal(wrapper[2].image, dataset[2].image)


def test_a_class_that_knows_its_labels_lists_them() -> None:
    class Listing(Own):
        def instance_labels(self, index: int) -> list[int]:
            return [7, index]

    assert (Own().lists_labels, SCENES.lists_labels, Listing().lists_labels) == (False, False, True)
    assert DatasetWrapper(Listing()).lists_labels
    assert not JoinedPhotos([Listing(), Own()]).lists_labels


def test_every_member_of_a_sample_is_passed_through() -> None:
    members = {name for name in vars(AnnotatedDataset) | vars(Annotations) if not name.startswith("_")}
    of_dataset = {"categories", "searched_folders", "tables", "facts", "joined", "incomplete_images"}
    of_dataset |= {"stray_files", "unread_paths", "left_out_files"}
    of_unchanged_samples = {"lone_objects"}
    of_own_rows = {"shape_rows", "label_numbers"}  # a dataset that changes entries has other shapes
    assert members - set(ATTRIBUTES) == {*OF_IMAGE, *of_dataset, *of_own_rows, *of_unchanged_samples}


def test_defaults_of_a_list() -> None:
    dataset = annotated(SAMPLES)
    assert not dataset.names_classes
    assert dataset.instance_labels(1) == SAMPLES[1].labels.tolist()
    assert list(dataset.annotation_ids(1)) == list(range(1, SAMPLES[1].num_instances + 1))
    assert (dataset.image_id(2), dataset.file_name(2), dataset.photo_file(2)) == (2, "sample 2", None)
    assert (dataset.left_out(0), list(dataset.crowds(0)), dataset.federated(0)) == ({}, [], None)


def test_members_of_a_foreign_class_are_used() -> None:
    dataset = pickle.loads(pickle.dumps(annotated(Foreign())))
    assert (dataset.image_id(1), dataset.dataset_idx(1), dataset.names_classes) == (71, 1, True)
    assert annotated(dataset) is dataset


def test_subsets_and_concatenations_of_each_other() -> None:
    whole = ConcatDataset([Subset(Foreign(), [2, -2]), Subset(ConcatDataset([Own(), Own()]), [4, 0])])  # type: ignore[arg-type, list-item]
    dataset = annotated(whole)
    assert [dataset.image_id(i) for i in range(4)] == [72, 71, 1, 0]
    assert [dataset.dataset_idx(i) for i in range(4)] == [0, 1, 2, 1]
    assert dataset.facts() == {"parts": [[2, [2, -2]], [2, [[4, 0], {"parts": [[3, None], [3, None]]}]]]}
    assert all(torch.equal(dataset[i].image, whole[i].image) for i in range(4))
    with pytest.raises(IndexError):
        dataset.place(4)  # type: ignore[attr-defined]


def test_a_list_goes_everywhere(tmp_path: Any) -> None:
    names = SCENES.class_names
    assert "3 images" in str(check_dataset(SAMPLES, decode=True))
    every = Selection(min_area_px=1, min_part_frac=0)
    built = build_bank(SAMPLES, tmp_path / "bank", class_names=names, crop_size=(32, 32), selection=every)
    bank = open_bank(built.where)
    assert sorted(bank.crop_class_ids()) == sorted(label for sample in SAMPLES for label in sample.labels.tolist())
    assert len(DatasetBank(SAMPLES, class_names=names, crop_size=(32, 32))) == len(bank)
    joined = JoinedPhotos([Own(), Subset(Own(), [1])])
    assert joined.path_of(3) == Own().path_of(1)
    assert (len(joined), joined.image_id(3), joined.file_name(3)) == (4, 1, "Subset/sample 1")


def loader_of(samples: list[DenseSample]) -> DataLoader[Any]:
    return DataLoader(samples, collate_fn=list)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [iter, loader_of])
def test_what_has_no_samples_by_index_is_refused(make: Callable[[list[DenseSample]], Any], tmp_path: Path) -> None:
    build = partial(build_bank, out=tmp_path / "bank", class_names=["cup"])
    for use in (annotated, DatasetBank, check_dataset, build):
        with pytest.raises(TypeError, match=r"a length and samples by index, got .*loader\.dataset"):
            use(make(SAMPLES))
