"""Limits, labels, warnings and refusals of the transform of one sample."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import tv_tensors

from coded_pastes import coded_bank, coded_config
from samples import SCHEMA, make_batch, make_sample
from segpaste import BatchCopyPasteConfig
from segpaste.augmentation import PanopticConfig, PanopticTaxonomy, PlacementConfig, SourceConfig
from segpaste.bank import DatasetBank, MemmapBank
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.experimental import CopyPaste
from segpaste.types import DenseSample, Modality


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> MemmapBank:
    return coded_bank(tmp_path_factory.mktemp("coded") / "bank")


def empty_sample(height: int = 60, width: int = 80) -> DenseSample:
    masks = torch.zeros(0, height, width, dtype=torch.bool)
    return DenseSample.from_masks(torch.zeros(3, height, width, dtype=torch.uint8), masks, torch.zeros(0).long())


def target_of(sample: DenseSample) -> dict[str, Any]:
    return {"boxes": sample.boxes, "labels": sample.labels, "masks": sample.instance_masks}


def test_pastes_fill_up_to_a_limit_and_own_instances_stay(bank: MemmapBank) -> None:
    for limit, num_own, expected in [(None, 0, 5), (3, 0, 3), (1, 0, 1), (0, 0, 0), (2, 4, 4)]:
        paste = CopyPaste(bank, coded_config(5), max_instances=limit)
        sample = make_sample((60, 80), num_own, ["instance"])
        torch.manual_seed(0)
        assert paste(sample).num_instances == expected if not num_own else paste(sample).num_instances <= expected
    paste = CopyPaste(bank, coded_config(5).model_copy(update={"max_instances": 2}))
    assert paste(empty_sample()).num_instances == 2
    assert paste(make_sample((60, 80), 4, ["instance"])).num_instances == 4


def test_an_image_that_is_full_stays_as_it_is(bank: MemmapBank) -> None:
    sample = make_sample((60, 80), 4, ["instance"])
    out = CopyPaste(bank, coded_config(5), max_instances=2)(sample)
    assert torch.equal(out.image, sample.image)
    assert out.labels.tolist() == sample.labels.tolist()


def test_the_limit_of_a_taxonomy_holds(bank: MemmapBank) -> None:
    taxonomy = PanopticTaxonomy(classes=SCHEMA.classes, max_instances_per_image=3)
    config = coded_config(5).model_copy(update={"panoptic": PanopticConfig(taxonomy=taxonomy)})
    sample = make_sample((60, 80), 2, ["instance", "semantic", "panoptic"])
    assert CopyPaste(bank, config)(sample).num_instances <= 3


def test_class_ids_below_0_are_never_pasted(bank: MemmapBank) -> None:
    paste = CopyPaste(bank, coded_config(4), label_map=[40, -1, 7])
    labels = set()
    for seed in range(8):
        torch.manual_seed(seed)
        labels |= set(paste(empty_sample()).labels.tolist())
    assert labels == {40, 7}


def test_objects_of_a_dataset(capsys: pytest.CaptureFixture[str]) -> None:
    dataset = SceneDataset(6, SceneConfig(height=60, width=80), modalities=[Modality.INSTANCE])
    config = coded_config(3)
    paste = CopyPaste(dataset, config, balance="class_uniform", label_map=5)
    assert capsys.readouterr().out.startswith("CopyPaste: pastes expected in 1000 images\nclass")
    pool = CopyPaste(DatasetBank(dataset), config, balance="class_uniform", label_map=5)
    for seed in range(4):
        torch.manual_seed(seed)
        out = paste(empty_sample())
        torch.manual_seed(seed)
        assert torch.equal(out.image, pool(empty_sample()).image)
        assert out.num_instances > 0
        assert int(out.labels.min()) >= 5


class OfShared(Dataset[bool]):
    """Whether the crops of a paste are in shared memory, which only another process needs."""

    def __init__(self, paste: CopyPaste) -> None:
        self.paste = paste

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> bool:
        crops = self.paste.augment.crops
        assert crops is not None
        return crops.staged(torch.tensor([index])).images.is_shared()


@pytest.mark.parametrize("workers", [0, 1])
def test_crops_that_are_pasted_at_once_are_not_shared(workers: int, bank: MemmapBank) -> None:
    loader = DataLoader(OfShared(CopyPaste(bank, coded_config(2))), batch_size=None, num_workers=workers)
    assert list(loader) == [False]


def test_a_transform_can_be_pickled_and_printed(bank: MemmapBank) -> None:
    paste = CopyPaste(bank, label_map=1)
    again = pickle.loads(pickle.dumps(paste))
    torch.manual_seed(0)
    expected = paste(empty_sample())
    torch.manual_seed(0)
    assert torch.equal(again(empty_sample()).image, expected.image)
    assert "CopyPaste(" in repr(paste)


def test_only_long_failure_is_worth_a_warning(bank: MemmapBank) -> None:
    paste, tiny = CopyPaste(bank, coded_config(1)), empty_sample(5, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(31):
            paste(tiny)
    with pytest.warns(
        UserWarning, match=r"CopyPaste pasted nothing into 32 samples; the reason for the last one: .*does_not_fit 1"
    ):
        paste(tiny)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        paste(tiny)
        paste = CopyPaste(bank, coded_config(1))
        paste(empty_sample())
        for _ in range(40):
            paste(tiny)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"source_pool": None}, TypeError, "expected source_pool to be a bank or a dataset, got NoneType"),
        ({"source_pool": "bank"}, TypeError, r"got str; open a bank with open_bank\(path\)"),
        ({"config": BatchCopyPasteConfig(source={"kind": "same_image"})}, ValueError, "expected source.kind='bank'"),
        ({"config": {}}, TypeError, "BatchCopyPasteConfig"),
        ({"label_map": [1, 2]}, ValueError, "expected a class id for every label, got none for 2"),
        ({"label_map": ["a", "b"]}, ValueError, r"expected a text for every class of the bank, got none for \[2\]"),
        ({"label_map": "car"}, TypeError, "label_map: expected an integer to add"),
        ({"label_map": True}, TypeError, "label_map: expected an integer to add, .* got True, a bool"),
        ({"label_map": ["a", 1, "b"]}, ValueError, "label_map: expected texts or numbers, got both"),
        ({"mask_value": 7}, ValueError, "expected mask_value to be 1 or 255, got 7"),
        ({"max_instances": -1}, ValueError, "max_instances: expected at least 0"),
        ({"drop": "area"}, TypeError, "expected drop to be a list of names, got the text 'area'"),
    ],
)
def test_arguments_that_are_refused(
    options: dict[str, Any], error: type[Exception], message: str, bank: MemmapBank
) -> None:
    with pytest.raises(error, match=message):
        CopyPaste(**{"source_pool": bank, **options})


BOXES = tv_tensors.BoundingBoxes(torch.tensor([[1.0, 1, 5, 6, 10]]), format="XYWHR", canvas_size=(20, 30))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keypoints": torch.zeros(2, 3, 3)}, "expected no keypoints, or a tensor"),
        ({"scores": torch.zeros(2)}, r"got 'scores', a Tensor; give keep=\('scores',\)"),
        ({"annotation": {}}, "got 'annotation', a dict"),
        ({"bbox": [1, 2]}, "got 'bbox', a list"),
        ({"labels": None}, "expected 'labels' with one value for each of 2 objects, got none; add them"),
        ({"area": [1.0]}, "expected 'area' with one value for each of 2 objects"),
        ({"iscrowd": torch.zeros(2, 1)}, "expected 'iscrowd' with one value for each of 2 objects"),
        (
            {"masks": torch.zeros(3, 20, 30)},
            r"expected masks \[2, 20, 30\], .*, got \[3, 20, 30\]; filter",
        ),
        ({"boxes": BOXES}, "expected boxes of format XYXY, XYWH or CXCYWH, got XYWHR"),
        ({"labels": ["cat", "dog"]}, "expected numbers in 'labels', got 'cat'; number the classes"),
        ({"masks": torch.full((2, 20, 30), 0.25)}, "masks: expected 0 and 1, or 0 and 255, got 0.25, .*; choose a thr"),
        (
            {"masks": torch.arange(2).view(2, 1, 1).expand(2, 20, 30) + 1},
            "masks: expected 0 and 1, or 0 and 255, got 2",
        ),
        ({"masks": torch.full((2, 20, 30), -1)}, "masks: expected 0 and 1, or 0 and 255, got -1"),
        ({"masks": torch.full((2, 20, 30), torch.nan)}, "masks: expected 0 and 1, or 0 and 255, got nan"),
    ],
)
def test_targets_that_are_refused(changes: dict[str, Any], message: str, bank: MemmapBank) -> None:
    sample = make_sample((20, 30), 2, ["instance"])
    with pytest.raises(ValueError, match=message):
        CopyPaste(bank, label_map=1)(sample.image, {**target_of(sample), **changes})


def test_entries_are_kept_and_dropped_by_name(bank: MemmapBank) -> None:
    sample = make_sample((40, 50), 2, ["instance"])
    target = {
        **target_of(sample),
        "scores": torch.zeros(2),
        "place": [3, 4],
        "size": [40, 50],
        "name": "x",
        "weight": 0.5,
    }
    paste = CopyPaste(bank, label_map=1, keep=("place",), drop=("scores", "keypoints"))
    _, out = paste(sample.image, {**target, "keypoints": torch.zeros(2, 1, 3)})
    assert {name: out[name] for name in set(out) - {"boxes", "labels", "masks"}} == {
        "place": [3, 4],
        "size": [40, 50],
        "name": "x",
        "weight": 0.5,
    }


def test_options_that_a_form_needs(bank: MemmapBank) -> None:
    sample = make_sample((40, 50), 2, ["instance"])
    with pytest.raises(ValueError, match=r"expected label_map, .* \['car', 'cup', 'zebra'\]"):
        CopyPaste(bank)(sample.image, target_of(sample))
    names = CopyPaste(bank, label_map=bank.class_names)
    for given in [(sample,), (sample.image, target_of(sample))]:
        with pytest.raises(ValueError, match="expected class ids in label_map"):
            names(*given)
    padded = BatchCopyPasteConfig(
        source=SourceConfig(kind="bank"), placement=PlacementConfig(paste_prob=1.0, pad_to_multiple=16)
    )
    with pytest.raises(ValueError, match=r"expected placement\.fade_last=0, .* got 0\.5; leave it out"):
        CopyPaste(
            bank, BatchCopyPasteConfig(source=padded.source, placement=PlacementConfig(paste_prob=1.0, fade_last=0.5))
        )
    with pytest.raises(ValueError, match=r"expected no placement\.pad_to_multiple"):
        CopyPaste(bank, padded, label_map=1)(sample.image, target_of(sample))


@pytest.mark.parametrize(
    "given", [(), (3,), (torch.zeros(3, 4, 4),), (torch.zeros(3, 4, 4), 5), (make_batch(2),), ({},)]
)
def test_other_forms_are_refused(given: tuple[Any, ...], bank: MemmapBank) -> None:
    with pytest.raises(TypeError, match="expected a DenseSample, an image and its target"):
        CopyPaste(bank, label_map=1)(*given)


def test_images_of_other_classes_are_refused(bank: MemmapBank) -> None:
    paste = CopyPaste(bank, label_map=1)
    with pytest.raises(ValueError, match="expected an image of mode RGB, got L"):
        paste(Image.new("L", (30, 20)), {})
    with pytest.raises(TypeError, match="expected the image to be a tensor or a PIL image, got list"):
        paste([1], {})
    with pytest.raises(TypeError, match="expected dtype uint8 or float32, got float64"):
        paste(torch.zeros(3, 20, 30, dtype=torch.float64), {})


@pytest.mark.parametrize(
    ("num", "what"), [(1, r"1 \(grey\); repeat it three times"), (4, r"4 \(with transparency\?\); keep")]
)
@pytest.mark.parametrize("form", ["pair", "sample", "arrays"])
def test_channels_are_named(form: str, num: int, what: str, bank: MemmapBank) -> None:
    paste, image = CopyPaste(bank, label_map=1), torch.zeros(num, 20, 30)
    given = {
        "pair": (image, {}),
        "sample": DenseSample.from_masks(image, torch.zeros(0, 20, 30, dtype=torch.bool), torch.zeros(0).long()),
        "arrays": {"image": image.permute(1, 2, 0).numpy()},
    }[form]
    with pytest.raises(ValueError, match=f"CopyPaste: expected images of 3 channels, got {what}"):
        paste(given)


def float_image(low: float, high: float) -> torch.Tensor:
    return torch.linspace(low, high, 3 * 20 * 30).view(3, 20, 30)


@pytest.mark.parametrize(
    ("image", "white", "message"),
    [
        (float_image(0, 255), 1.0, r"in 0\.\.1, got 0\.\.255; divide the images by 255, or give source.value_range"),
        (
            float_image(0, 1),
            255.0,
            r"in 0\.\.255, got 0\.\.1 in all images; multiply the images by 255, or give source",
        ),
        (float_image(-2, 2), 1.0, r"in 0\.\.1, got -2\.\.2; paste first and normalise afterwards"),
        (torch.full((3, 20, 30), torch.nan), 1.0, r"in 0\.\.1, got NaN"),
    ],
    ids=["0..255", "0..1", "normalised", "NaN"],
)
@pytest.mark.parametrize("form", ["pair", "sample", "arrays"])
def test_colours_out_of_range_are_refused(
    form: str, image: torch.Tensor, white: float, message: str, bank: MemmapBank
) -> None:
    config = BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=SourceConfig(kind="bank", value_range=white))
    given = {
        "pair": (image, {}),
        "sample": DenseSample.from_masks(image, torch.zeros(0, 20, 30, dtype=torch.bool), torch.zeros(0).long()),
        "arrays": {"image": image.permute(1, 2, 0).numpy()},
    }[form]
    with pytest.raises(ValueError, match=f"CopyPaste: image: expected colours {message}"):
        CopyPaste(bank, config, label_map=1)(given)


@pytest.mark.parametrize("white", [1.0, 255.0])
def test_black_images_are_right_in_every_range(white: float, bank: MemmapBank) -> None:
    config = BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=SourceConfig(kind="bank", value_range=white))
    paste = CopyPaste(bank, config, label_map=1)
    for image in (torch.zeros(3, 60, 80), torch.zeros(3, 60, 80, dtype=torch.uint8)):
        assert paste(image, {})[0].dtype == image.dtype
