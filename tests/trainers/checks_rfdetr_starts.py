"""RF-DETR's data module starts from what `segpaste convert --for` writes, and its loaders give every object."""

from __future__ import annotations

from pathlib import Path

import pytest
from rfdetr.config import RFDETRNanoConfig, RFDETRSegNanoConfig, SegmentationTrainConfig, TrainConfig
from rfdetr.training import RFDETRDataModule
from rfdetr_runs import QUIET, SMALL, STILL
from written_splits import NUM_IMAGES, NUM_OBJECTS, written_for

CONFIGS = {
    "rfdetr": (RFDETRSegNanoConfig, SegmentationTrainConfig),
    "rfdetr-detect": (RFDETRNanoConfig, TrainConfig),
}


def module_of(tool: str, folder: Path, work: Path) -> RFDETRDataModule:
    model, train = CONFIGS[tool]
    options = {"dataset_dir": str(folder), "output_dir": str(work), "batch_size": NUM_IMAGES, "num_workers": 0}
    return RFDETRDataModule(model(**SMALL), train(**options, **QUIET, **STILL))


@pytest.mark.parametrize("to", ["roboflow", "yolo"])
@pytest.mark.parametrize("tool", CONFIGS)
def test_the_data_module_starts_and_its_loaders_give_every_object(tool: str, to: str, tmp_path: Path) -> None:
    module = module_of(tool, written_for(tool, tmp_path, to=to), tmp_path / "run")
    module.setup("fit")
    for loader in (module.train_dataloader(), module.val_dataloader()):
        (_, targets), *_ = loader
        labels = [label for target in targets for label in target["labels"].tolist()]
        assert len(targets) == NUM_IMAGES
        assert sorted(labels) == [0] * (NUM_OBJECTS // 2) + [1] * (NUM_OBJECTS // 2)
        assert all(target["masks"].flatten(1).any(1).all() for target in targets if "masks" in target)


@pytest.mark.filterwarnings("ignore:data.yaml. expected a split to validate on")
@pytest.mark.parametrize("to", ["roboflow", "yolo"])
def test_the_data_module_stops_without_a_split_to_validate_on(to: str, tmp_path: Path) -> None:
    module = module_of("rfdetr", written_for("rfdetr", tmp_path, ("train",), to), tmp_path / "run")
    with pytest.raises(FileNotFoundError, match="valid"):
        module.setup("fit")
