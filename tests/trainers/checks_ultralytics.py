"""Trainers of Ultralytics on small YOLO folders, with pasted batches; run by `test_trainers`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from torch.nn import functional
from trainer_data import NUM_CLASSES, CountingPastes, data_folder, dataset_of
from ultralytics.cfg import get_cfg
from ultralytics.data.build import build_yolo_dataset
from ultralytics.data.utils import check_det_dataset
from ultralytics.models.yolo.detect import DetectionTrainer
from ultralytics.models.yolo.obb import OBBTrainer
from ultralytics.models.yolo.pose import PoseTrainer
from ultralytics.models.yolo.segment import SegmentationTrainer
from ultralytics.utils import SETTINGS
from ultralytics.utils.torch_utils import ModelEMA, init_seeds

from example_runs import expect_example_runs
from live_tensors import LiveTensors, expect_flat
from samples import EVERY_IMAGE
from segpaste import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.augmentation import PlacementConfig, SourceConfig
from segpaste.bank import DatasetBank
from segpaste.datasets.formats.format import Task
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.datasets.writers.yolo import data_yaml, sample_labels
from segpaste.integrations.ultralytics import YoloObjects, from_yolo, moves_of, schema_of, to_yolo, with_copy_paste
from segpaste.types import PaddedBatchedDenseSample, tight_boxes
from segpaste.viz import show

SETTINGS.update(raytune=False)  # importing Ray takes as long as a training

POINTS = 3
STILL = {"mosaic": 0.0, "translate": 0.0, "scale": 0.0, "fliplr": 0.0, "hsv_h": 0.0, "hsv_s": 0.0, "hsv_v": 0.0}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixteen images of one to three coloured boxes, with polygons, boxes and keypoints as YOLO labels."""
    root = tmp_path_factory.mktemp("yolo")
    rng = np.random.default_rng(0)
    for task in ("segment", "pose"):
        for kind in ("images", "labels"):
            (root / task / kind / "train").mkdir(parents=True)
    for number in range(16):
        image = rng.integers(90, 130, (96, 96, 3), dtype=np.uint8)
        rows: dict[str, list[str]] = {"segment": [], "pose": []}
        for _ in range(rng.integers(1, 4)):
            x, y, w, h = (*rng.integers(2, 60, 2), *rng.integers(14, 32, 2))
            label = int(rng.integers(0, 2))
            image[y : y + h, x : x + w] = (220, 40, 40) if label else (40, 40, 220)
            corners = np.array([[x, y], [x + w, y], [x + w, y + h], [x, y + h]]) / 96
            rows["segment"].append(f"{label} " + " ".join(map(str, corners.flatten().tolist())))
            centre = [(x + w / 2) / 96, (y + h / 2) / 96, w / 96, h / 96]
            points = [value for corner in corners[:POINTS].tolist() for value in (*corner, 2)]
            rows["pose"].append(f"{label} " + " ".join(map(str, [*centre, *points])))
        for task, lines in rows.items():
            Image.fromarray(image).save(root / task / "images" / "train" / f"{number}.png")
            (root / task / "labels" / "train" / f"{number}.txt").write_text("\n".join(lines))
    Image.fromarray(image).save(root / "segment" / "images" / "train" / "background.png")  # without a label file
    for task in rows:
        data: dict[str, Any] = {"path": str(root / task), "train": "images/train", "val": "images/train"}
        data["names"] = {0: "blue", 1: "red"}
        if task == "pose":
            data |= {"kpt_shape": [POINTS, 3], "flip_idx": [1, 0, 2]}
        (root / task / "data.yaml").write_text(yaml.safe_dump(data))
    return root


def photos(tmp_path: Path) -> Path:
    """A copy of coco128_seg, for a cache file is written beside its labels."""
    source = data_folder() / "coco128_seg"
    for kind in ("images", "labels"):
        shutil.copytree(source / kind, tmp_path / kind, copy_function=shutil.copyfile)
        for place in [tmp_path / kind, *(tmp_path / kind).rglob("*")]:
            place.chmod(0o755)
    data = {"path": str(tmp_path), "train": "images/train2017", "val": "images/train2017"}
    (tmp_path / "data.yaml").write_text(yaml.safe_dump({**data, "names": {n: f"class {n}" for n in range(80)}}))
    return tmp_path / "data.yaml"


def written(name: str, task: Task, folder: Path) -> Path:
    """Write sixteen samples of scenes or photos as a YOLO dataset, and return its data YAML."""
    posed = SceneDataset(16, SceneConfig(height=96, width=96), seed=0, keypoints=True)
    samples = [(posed if task == "pose" else dataset_of(name))[i] for i in range(16)]
    for kind in ("images", "labels"):
        (folder / kind).mkdir(parents=True)
    for number, sample in enumerate(samples):
        Image.fromarray(sample.image.permute(1, 2, 0).numpy()).save(folder / "images" / f"{number}.png")
        (folder / "labels" / f"{number}.txt").write_text(sample_labels(sample, task))
    names = [f"class {n}" for n in range(NUM_CLASSES)]
    text = data_yaml(
        names, {"train": "images", "val": "images"}, samples[0].keypoint_schema if task == "pose" else None
    )
    (folder / "data.yaml").write_text(f"path: {folder}\n{text}")
    return folder / "data.yaml"


def config(**source: Any) -> BatchCopyPasteConfig:
    return BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=SourceConfig(**source))


def short(trainer_cls: type[Any]) -> type[Any]:
    """Leave out the checkpoint, and the validation with it, which take longer than the training."""

    class Short(trainer_cls):  # type: ignore[misc]
        def leave_out(self) -> None: ...

        save_model = final_eval = leave_out

    return Short


def losses_of(trainer_cls: type[Any], model: str, data: Path, out: Path, **options: Any) -> list[float]:
    """Train for some steps of four images, pasted, and return the losses; what is `short` saves nothing."""
    augment: Any = BatchCopyPaste(options.pop("config", None))
    augment, balance = options.pop("compiled", lambda module: module)(augment), options.pop("balance", None)
    fixed = {"plots": False, "val": False, "amp": False, "verbose": False, "exist_ok": True, "deterministic": True}
    chosen = {"save": False, "imgsz": 96, "batch": 4, "workers": 0, "device": "cpu", "epochs": 1, "seed": 3, **options}
    overrides = {"model": model, "data": str(data), "project": str(out), **fixed, **chosen}
    trainer = with_copy_paste(trainer_cls, augment, 32, balance)(overrides=overrides)
    losses: list[float] = []
    alive = LiveTensors()

    def note(state: Any) -> None:
        losses.append(state.loss.item())
        alive.after_step()

    trainer.add_callback("on_train_batch_end", note)
    trainer.train()
    assert torch.tensor(losses).isfinite().all()
    if len(losses) > 15:
        expect_flat(alive.num_bytes)
    return losses


CASES: dict[str, tuple[type[Any], str, str, dict[str, Any]]] = {
    "segment": (SegmentationTrainer, "yolo11n-seg.yaml", "segment", {}),
    "segment, one mask each": (SegmentationTrainer, "yolo11n-seg.yaml", "segment", {"overlap_mask": False}),
    "detect on polygons": (DetectionTrainer, "yolo11n.yaml", "segment", {}),
    "pose by boxes": (PoseTrainer, "yolo11n-pose.yaml", "pose", {"config": config(mask_from="boxes")}),
}


OF_SAMPLES: dict[Task, tuple[type[Any], str, BatchCopyPasteConfig]] = {
    "segment": (SegmentationTrainer, "yolo11n-seg.yaml", config()),
    "detect": (DetectionTrainer, "yolo11n.yaml", config(mask_from="boxes")),
    "pose": (PoseTrainer, "yolo11n-pose.yaml", config(mask_from="boxes")),
}


@pytest.mark.parametrize(
    ("task", "data", "workers", "epochs"),
    [
        ("segment", "scenes", 0, 5),
        ("segment", "tiny_coco", 2, 2),
        ("detect", "tiny_coco", 0, 5),
        ("pose", "scenes", 2, 2),
    ],
)
def test_steps_of_scenes_and_photos(task: Task, data: str, workers: int, epochs: int, tmp_path: Path) -> None:
    """Each task, and each dataset; over twenty steps memory stays flat."""
    trainer_cls, model, made = OF_SAMPLES[task]
    yaml_file = written(data, task, tmp_path / "data")
    options = {"epochs": epochs, "workers": workers, "config": made}
    assert len(losses_of(short(trainer_cls), model, yaml_file, tmp_path / "out", **options)) == 4 * epochs


def test_a_compiled_paste_takes_a_smaller_last_batch(folder: Path, tmp_path: Path) -> None:
    """Sixteen images, five at a time; the batches have no seeds."""

    def compiled(augment: BatchCopyPaste) -> Any:
        return torch.compile(augment, fullgraph=True, backend="aot_eager")

    trainer_cls, model, data, _ = CASES["segment"]
    yaml_file = folder / data / "data.yaml"
    assert len(losses_of(short(trainer_cls), model, yaml_file, tmp_path, batch=5, compiled=compiled)) == 4


def test_the_average_of_a_model_that_owns_the_paste() -> None:
    model = torch.nn.Module()
    model.augment, model.layer = BatchCopyPaste(EVERY_IMAGE), torch.nn.Conv2d(3, 1, 1)
    model.augment.schedule.set(paste_prob=0.25)
    average = ModelEMA(model)
    for _ in range(2):
        average.update(model)
    assert average.ema.augment.schedule.paste_prob == 0.25
    assert int(average.ema.augment.schedule.limits[0]) == 1 << 30


@pytest.mark.parametrize("task", OF_SAMPLES)
def test_eight_pasted_images_are_learned(task: Task, tmp_path: Path) -> None:
    trainer_cls, model_file, made = OF_SAMPLES[task]
    options = {"model": model_file, "data": str(written("scenes", task, tmp_path / "data")), "project": str(tmp_path)}
    fixed = {"imgsz": 96, "batch": 8, "workers": 0, "epochs": 1, "plots": False, "amp": False, "device": "cpu"}
    torch.manual_seed(0)
    trainer = with_copy_paste(trainer_cls, BatchCopyPaste(made), 32)(overrides=options | fixed | STILL | {"seed": 3})
    trainer._setup_train()
    batch = trainer.preprocess_batch(next(iter(trainer.train_loader)))
    model = trainer.model.train()
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    losses: list[float] = []
    while len(losses) < 150 and (not losses or losses[-1] >= losses[0] / 2):
        loss = model(batch)[0].sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        losses.append(loss.item())
    assert torch.tensor(losses).isfinite().all()
    assert losses[-1] < losses[0] / 2, losses[::10]


def test_steps_of_one_mask_each(folder: Path, tmp_path: Path) -> None:
    trainer_cls, model, data, options = CASES["segment, one mask each"]
    assert len(losses_of(short(trainer_cls), model, folder / data / "data.yaml", tmp_path, **options)) == 5
    assert not list(tmp_path.rglob("*.jpg"))  # plots=False


@pytest.mark.parametrize(("name", "workers"), [("segment", 0), ("detect on polygons", 2)])
def test_steps_of_a_yolo_folder(name: str, workers: int, tmp_path: Path) -> None:
    """coco128_seg as it is; of its photos 40 are enough for ten steps."""
    trainer_cls, model, _, options = CASES[name]
    data, part = photos(tmp_path), 40 / len(list((tmp_path / "images").rglob("*.jpg")))
    options = {**options, "fraction": part, "workers": workers}
    assert len(losses_of(short(trainer_cls), model, data, tmp_path / "out", **options)) == 10


FROM_THE_DATASET: dict[str, tuple[type[Any], str, str, BatchCopyPasteConfig]] = {
    "segment": (SegmentationTrainer, "yolo11n-seg.yaml", "segment", config(kind="bank", crops_per_target=2)),
    "detect": (DetectionTrainer, "yolo11n.yaml", "segment", config(kind="bank")),
    "pose": (PoseTrainer, "yolo11n-pose.yaml", "pose", config(kind="bank", mask_from="boxes")),
}


@pytest.mark.parametrize(("name", "workers"), [("segment", 2), ("detect", 0), ("pose", 2)])
def test_batches_of_one_receive_objects_of_the_dataset(
    name: str, workers: int, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer_cls, model, data, made = FROM_THE_DATASET[name]
    options = {"data": str(folder / data / "data.yaml"), "project": str(tmp_path), "device": "cpu", "model": model}
    fixed = {"imgsz": 96, "batch": 1, "workers": workers, "epochs": 2, "plots": False, "val": False, "amp": False}
    fixed["fraction"] = 0.5  # eight images
    counting = CountingPastes(made).eval()  # a trainer pastes in any mode
    with_copy_paste(short(trainer_cls), counting, 16, balance="class_uniform")(overrides=options | fixed).train()
    num_images = 8
    assert len(counting.placed) == 2 * num_images
    assert sum(num > 0 for num in counting.placed) > num_images
    printed = capsys.readouterr().out
    assert printed.count("pastes expected in an epoch, balance='class_uniform'") == 1
    drawn = {line.split()[0]: float(line.split()[-3]) for line in printed.splitlines() if line[:4] in ("blue", "red ")}
    assert drawn["blue"] == drawn["red"] > 0


def test_the_objects_are_those_of_the_label_files(folder: Path) -> None:
    """The crops are cut by the polygons as the loader of the trainer draws them."""
    data = check_det_dataset(str(folder / "segment" / "data.yaml"))
    overrides = {"task": "segment", "imgsz": 96, "mask_ratio": 1, "overlap_mask": False, **STILL}
    dataset = build_yolo_dataset(get_cfg(overrides=overrides), data["train"], 4, data, mode="train", rect=False)
    objects = YoloObjects(dataset, ("blue", "red"), None, from_boxes=False)
    assert len(objects) == len(dataset) == 17
    for index in range(len(dataset)):
        loaded, sample = dataset[index], objects[index]
        assert torch.equal(sample.image, loaded["img"])
        assert sample.labels.tolist() == loaded["cls"].flatten().tolist() == objects.instance_labels(index)
        assert torch.equal(sample.instance_masks.int(), loaded["masks"].reshape(-1, 96, 96).int())
    assert DatasetBank(objects, crop_size=(32, 32)).class_frequencies == tuple(
        sum(objects.instance_labels(i).count(label) for i in range(17)) for label in (0, 1)
    )


@pytest.mark.parametrize("size", [(96, 41), (40, 96), (96, 96)], ids=str)
@pytest.mark.parametrize("moves", [{}, {"hsv_v": 0.4, "translate": 0.1, "scale": 0.5, "fliplr": 0.5}], ids=str)
def test_grey_borders_are_padding(size: tuple[int, int], moves: dict[str, float], tmp_path: Path) -> None:
    """Photos of 200 and more on every pixel: what is darker was filled up by the loader.

    Only grey that is mixed with the photo, on its edge, may be taken for a part of it.
    """
    init_seeds(7)
    height, width = size
    for kind in ("images", "labels"):
        (tmp_path / kind).mkdir()
    for number in range(6):
        noise = np.random.default_rng(number).integers(200, 255, (height, width, 3), dtype=np.uint8)
        Image.fromarray(noise).save(tmp_path / "images" / f"{number}.png")
        (tmp_path / "labels" / f"{number}.txt").write_text("0 0.2 0.2 0.6 0.2 0.6 0.7")
    data: dict[str, Any] = {"path": str(tmp_path), "train": "images", "val": "images", "names": {0: "a"}}
    (tmp_path / "data.yaml").write_text(yaml.safe_dump(data))
    data = check_det_dataset(str(tmp_path / "data.yaml"))
    overrides = {"task": "segment", "imgsz": 96, "mask_ratio": 1, "overlap_mask": False, **STILL, **moves}
    dataset = build_yolo_dataset(get_cfg(overrides=overrides), data["train"], 4, data, mode="train", rect=False)
    batch = dataset.collate_fn([dataset[index] for index in range(6)])
    known = moves_of(get_cfg(overrides=overrides))
    padding, any_width = (from_yolo(batch, 4, overlap=False, moves=bound).padding_mask for bound in (known, None))
    assert padding is not None
    assert torch.equal(padding, any_width)
    filled = (batch["img"].float().std(1, keepdim=True) == 0) & (batch["img"].amax(1, keepdim=True) < 170)
    assert filled.any() == (height != width or bool(moves))
    assert not (padding & ~filled).any()
    beside = functional.max_pool2d((~filled).float(), 3, stride=1, padding=1) > 0
    assert not (filled & ~padding & ~beside).any()


@pytest.mark.parametrize("size", [(96, 41), (96, 96)], ids=str)
def test_plain_backgrounds_are_image(size: tuple[int, int], tmp_path: Path) -> None:
    """A coloured square in the middle of a grey photo: what the loader adds is padding once mosaic is closed."""
    height, width = size
    for kind in ("images", "labels"):
        (tmp_path / kind).mkdir()
    photo = np.full((height, width, 3), 114, np.uint8)
    photo[height // 2 - 5 : height // 2 + 5, width // 2 - 5 : width // 2 + 5] = (220, 40, 40)
    for number in range(4):
        Image.fromarray(photo).save(tmp_path / "images" / f"{number}.png")
        (tmp_path / "labels" / f"{number}.txt").write_text("0 0.4 0.4 0.6 0.4 0.6 0.6")
    data: dict[str, Any] = {"path": str(tmp_path), "train": "images", "val": "images", "names": {0: "a"}}
    (tmp_path / "data.yaml").write_text(yaml.safe_dump(data))
    seen: list[PaddedBatchedDenseSample] = []
    options = {"data": str(tmp_path / "data.yaml"), "project": str(tmp_path), "device": "cpu", "plots": False}
    fixed = {
        **STILL,
        "imgsz": 96,
        "batch": 4,
        "workers": 0,
        "epochs": 2,
        "mosaic": 1.0,
        "close_mosaic": 1,
        "val": False,
    }
    trainer = with_copy_paste(short(SegmentationTrainer), lambda batch: seen.append(batch) or batch, 4)(
        overrides={"model": "yolo11n-seg.yaml", **options, **fixed, "amp": False}
    )
    trainer.train()
    rows, columns = ((97 - side) // 2 for side in size)  # a line that is half image counts as border
    expected = torch.ones(96, 96, dtype=torch.bool)
    expected[rows : 96 - rows, columns : 96 - columns] = False
    assert len(seen) == 2
    assert seen[1].padding_mask is not None
    assert all(torch.equal(padding, expected) for padding in seen[1].padding_mask[:, 0])


@pytest.mark.parametrize(
    ("grey", "hsv_v", "is_border"),
    [
        *[(114, 0.0, True), (80, 0.4, True), (159, 0.4, True), (60, 0.5, True)],
        *[(60, 0.4, False), (0, 0.4, False), (255, 0.4, False), (140, 0.0, False), (0, 0.99, False)],
    ],
)
def test_plain_margins_of_other_brightness_are_image(grey: int, hsv_v: float, is_border: bool) -> None:
    images = torch.full((1, 3, 20, 20), grey, dtype=torch.uint8)
    images[:, :, 5:15] = torch.randint(200, 254, (1, 3, 10, 20), dtype=torch.uint8)
    batch = {"img": images, "batch_idx": torch.zeros(0), "cls": torch.zeros(0, 1), "bboxes": torch.zeros(0, 4)}
    padding = from_yolo(batch, 4, overlap=False, hsv_v=hsv_v).padding_mask
    assert padding is not None
    assert padding[0, 0, :5].all() == padding[0, 0, 15:].all() == is_border
    assert not padding[0, 0, 5:15].any()


def test_pastes_fade_with_the_epochs(folder: Path, tmp_path: Path) -> None:
    made = BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=1.0, fade_last=0.5))
    options = {"data": str(folder / "segment" / "data.yaml"), "project": str(tmp_path), "device": "cpu", "epochs": 4}
    fixed = {"imgsz": 96, "batch": 4, "workers": 0, "plots": False, "val": False, "amp": False, "seed": 3}
    fixed["fraction"] = 0.5  # two steps in an epoch
    counting = CountingPastes(made)
    trainer = with_copy_paste(short(SegmentationTrainer), counting, 16)(
        overrides={"model": "yolo11n-seg.yaml", **options, **fixed}
    )
    trainer.train()
    assert len(counting.placed) == 8
    assert all(counting.placed[:4])
    assert not any(counting.placed[4:])


def test_balance_needs_colours_and_outlines(folder: Path, tmp_path: Path) -> None:
    options = {"project": str(tmp_path), "device": "cpu", "imgsz": 96, "batch": 4, "workers": 0, "epochs": 1}
    options |= {"model": "yolo11n-pose.yaml", "data": str(folder / "pose" / "data.yaml")}
    pasting = with_copy_paste(PoseTrainer, BatchCopyPaste(config(kind="bank")), 8, "natural")
    with pytest.raises(ValueError, match="expected colour images and bgr=0 with balance"):
        pasting(overrides=options | {"bgr": 0.5})
    with pytest.raises(ValueError, match="expected polygons, since balance='natural' cuts out objects by them"):
        pasting(overrides=options).train()


def test_balance_needs_crops() -> None:
    with pytest.raises(ValueError, match=r"expected an augmentation with source.kind='bank' because balance="):
        with_copy_paste(SegmentationTrainer, BatchCopyPaste(EVERY_IMAGE), 8, balance="natural")


@pytest.mark.parametrize(
    ("name", "workers", "more"),
    [
        ("segment", 0, {}),
        ("segment", 2, {"balance": "class_uniform", "config": config(kind="bank")}),
        ("detect on polygons", 2, {}),
        ("pose by boxes", 0, {}),
    ],
)
def test_the_same_seed_gives_the_same_losses(
    name: str, workers: int, more: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    trainer_cls, model, data, options = CASES[name]
    given = {"workers": workers, "fraction": 0.7, **options, **more}
    runs = [losses_of(short(trainer_cls), model, folder / data / "data.yaml", tmp_path, **given) for _ in range(2)]
    assert len(runs[0]) == 3
    assert runs[0] == runs[1]


@pytest.mark.parametrize("overlap", [True, False])
def test_detection_on_polygons_pastes_by_masks(folder: Path, tmp_path: Path, overlap: bool) -> None:
    """Only training has masks at full resolution; its dataset keeps them when mosaic ends."""
    seen: list[PaddedBatchedDenseSample] = []
    options = {"data": str(folder / "segment" / "data.yaml"), "project": str(tmp_path), "device": "cpu"}
    fixed = {"imgsz": 96, "batch": 4, "workers": 0, "epochs": 1, "plots": False, "overlap_mask": overlap}
    trainer = with_copy_paste(short(DetectionTrainer), lambda batch: seen.append(batch) or batch, 8)(
        overrides={"model": "yolo11n.yaml", **options, **fixed}
    )
    trainer.train()
    assert len(seen) == 5
    assert all(batch.instance_masks is not None for batch in seen)
    assert any(batch.instance_masks.any() for batch in seen if batch.instance_masks is not None)


def test_validation_is_not_touched(folder: Path, tmp_path: Path) -> None:
    options = {"data": str(folder / "segment" / "data.yaml"), "project": str(tmp_path), "device": "cpu", "imgsz": 96}
    trainer = with_copy_paste(SegmentationTrainer, BatchCopyPaste(EVERY_IMAGE), 8)(
        overrides={"model": "yolo11n-seg.yaml", **options}
    )
    trainer.model = trainer.get_model("yolo11n-seg.yaml", verbose=False)
    for mode, ratio in (("train", 1), ("val", 4)):
        sample = trainer.build_dataset(trainer.data["val"], mode, 2)[0]
        assert sample["img"].shape[-1] == ratio * sample["masks"].shape[-1]
    assert trainer.args.mask_ratio == 4


def test_oriented_boxes_are_refused(folder: Path, tmp_path: Path) -> None:
    trainer_cls = with_copy_paste(OBBTrainer, BatchCopyPaste(EVERY_IMAGE), 8)
    with pytest.raises(ValueError, match="expected a task among segment, detect, pose, got 'obb'"):
        trainer_cls(overrides={"model": "yolo11n-obb.yaml", "data": str(folder / "segment" / "data.yaml")})
    with pytest.raises(TypeError, match="expected a trainer class of ultralytics, got 'x'"):
        with_copy_paste("x", BatchCopyPaste(EVERY_IMAGE), 8)  # type: ignore[arg-type]


def loaded(data: Path, task: str, num: int, **options: Any) -> dict[str, Any]:
    """A batch of Ultralytics' own loader, without its random changes."""
    facts = check_det_dataset(str(data))
    options = {"task": task, "imgsz": 96, **STILL, **options}
    dataset = build_yolo_dataset(get_cfg(overrides=options), facts["train"], 8, facts, mode="train", stride=32)
    batch: dict[str, Any] = dataset.collate_fn([dataset[i] for i in range(num)])
    return batch


@pytest.mark.parametrize("ratio", [1, 2, 4])
def test_an_unpasted_batch_comes_back_as_the_loader_gives_it(folder: Path, ratio: int) -> None:
    data = folder / "segment" / "data.yaml"
    own = loaded(data, "segment", 16, overlap_mask=False, mask_ratio=ratio)
    whole = loaded(data, "segment", 16, overlap_mask=False, mask_ratio=1)
    again = to_yolo(from_yolo(whole, 16, overlap=False), like=whole, mask_ratio=ratio, overlap=False)
    assert all(torch.equal(again[name], own[name]) for name in again)
    assert all(again[name].dtype == own[name].dtype for name in again)


def test_overlap_maps_hold_what_their_objects_show(folder: Path) -> None:
    """The order of objects in a map is by the area that is seen, for a map does not say what it hides."""
    data = folder / "segment" / "data.yaml"
    whole = loaded(data, "segment", 16, overlap_mask=True, mask_ratio=1)
    batch = from_yolo(whole, 16, overlap=True)
    again = to_yolo(batch, like=whole, mask_ratio=1, overlap=True)
    assert torch.equal(again["masks"] > 0, whole["masks"] > 0)
    for b in range(16):
        classes = [t["cls"][t["batch_idx"] == b, 0] for t in (whole, again)]
        seen = [
            torch.cat([c.new_full((1,), -1), c])[t["masks"][b].long()]
            for c, t in zip(classes, (whole, again), strict=True)
        ]
        assert torch.equal(seen[0], seen[1])
        areas = [(again["masks"][b] == n + 1).sum() for n in range(len(classes[1]))]
        assert areas == sorted(areas, reverse=True)
    assert torch.equal(again["sem_masks"][whole["masks"] > 0], whole["sem_masks"][whole["masks"] > 0])


def test_maps_of_many_objects_do_not_wrap() -> None:
    """The loader's map is of uint8 where its image has few objects; pastes may make them more."""
    num = 300
    masks = torch.eye(num, dtype=torch.bool).view(1, num, 15, 20)
    ids = torch.arange(1, num + 1, dtype=torch.int32)[None]
    fields = {"instance_valid": ids > 0, "instance_ids": ids, "instance_masks": masks}
    boxes = tight_boxes(masks[0])[None]
    images = torch.zeros(1, 3, 15, 20, dtype=torch.uint8)
    batch = PaddedBatchedDenseSample(images, boxes, torch.zeros(1, num, dtype=torch.int64), **fields)
    like = {"img": images, "batch_idx": torch.zeros(0), "cls": torch.zeros(0, 1), "bboxes": torch.zeros(0, 4)}
    again = to_yolo(batch, like={**like, "masks": images[:, 0]}, mask_ratio=1, overlap=True)
    assert sorted(again["masks"].flatten().tolist()) == list(range(1, num + 1))


def test_texts_of_each_image_are_refused(folder: Path, tmp_path: Path) -> None:
    overrides = {"model": "yolo11n.yaml", "data": str(folder / "segment" / "data.yaml"), "project": str(tmp_path)}
    trainer = with_copy_paste(DetectionTrainer, BatchCopyPaste(EVERY_IMAGE), 8)(
        overrides={**overrides, "device": "cpu"}
    )
    with pytest.raises(ValueError, match="expected batches without 'texts', got some"):
        trainer.preprocess_batch({"texts": [["cat"]]})


def test_keypoints_come_back(folder: Path) -> None:
    data = folder / "pose" / "data.yaml"
    own = loaded(data, "pose", 16)
    schema = schema_of(check_det_dataset(str(data)))
    assert schema.flip_pairs == ((0, 1),)
    again = to_yolo(from_yolo(own, 16, overlap=True, schema=schema), like=own, mask_ratio=4, overlap=True)
    for name in again:
        assert torch.allclose(again[name].float(), own[name].float(), atol=1e-6), name


@pytest.mark.parametrize("name", ["segment", "pose by boxes"])
def test_the_first_batch_is_a_picture_beside_the_trainers_own(name: str, folder: Path, tmp_path: Path) -> None:
    """It shows what the trainer gets."""
    trainer_cls, model, data, options = CASES[name]
    seen: list[dict[str, Any]] = []

    class Watched(trainer_cls):  # type: ignore[misc]
        def preprocess_batch(self, batch: dict[str, Any]) -> dict[str, Any]:
            seen.append({name: v.clone() if isinstance(v, torch.Tensor) else v for name, v in batch.items()})
            return dict(super().preprocess_batch(batch))

    class WithoutCurves(Watched):
        """Leaves out the validation and the trainer's own curves, which take longer than the training."""

        def validate(self) -> tuple[dict[str, float], float]:
            return {}, 0.0

        def leave_out(self) -> None: ...

        plot_training_labels = plot_metrics = save_model = final_eval = leave_out

    kind = Watched if name == "segment" else WithoutCurves  # one run has all that the trainer draws
    losses_of(kind, model, folder / data / "data.yaml", tmp_path, plots=True, **options)
    (path,) = tmp_path.rglob("copy_paste_batch.*")
    assert (path.parent / "train_batch0.jpg").exists()
    again = tmp_path / "again.jpg"
    show(seen[0], class_names={0: "blue", 1: "red"}, path=again)
    assert path.read_bytes() == again.read_bytes()


@pytest.mark.parametrize("overlap", [True, False])
def test_batches_of_the_loader_are_shown(folder: Path, overlap: bool) -> None:
    """At a quarter of the resolution and in full, before and after the trainer makes floats of them, alike."""
    data, options = folder / "segment" / "data.yaml", {"overlap_mask": overlap}
    whole, small = (loaded(data, "segment", 4, mask_ratio=ratio, **options) for ratio in (1, 4))
    pages = [np.asarray(show(batch)).astype(int) for batch in (whole, small, {**small, "img": small["img"] / 255})]
    assert np.array_equal(pages[1], pages[2])
    assert np.abs(pages[0] - pages[1]).mean() < 3  # edges of masks
    image = whole["img"][0].permute(1, 2, 0).numpy().repeat(4, 0).repeat(4, 1)
    objects = whole["batch_idx"] == 0
    free = np.ones((384, 384), bool)
    for x, y, w, h in (whole["bboxes"][objects] * 384).tolist():
        free[max(0, int(y - h / 2) - 20) : int(y + h / 2) + 20, max(0, int(x - w / 2) - 4) : int(x + w / 2) + 60] = (
            False
        )
    assert np.array_equal(pages[0][10:394, 10:394][free], image[free])


def test_masks_of_another_size_are_refused(folder: Path) -> None:
    batch = loaded(folder / "segment" / "data.yaml", "segment", 2, overlap_mask=True)
    with pytest.raises(ValueError, match=r"expected the size of the images, \[96, 96\], got \[24, 24\]"):
        from_yolo(batch, 8, overlap=True)


def test_the_example_runs(tmp_path: Path) -> None:
    expect_example_runs("13_ultralytics_segmentation", tmp_path)
