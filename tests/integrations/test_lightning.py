"""The callback and the DataModule for Lightning in trainings of one process; `test_lightning_ranks` has two."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as lightning
import torch
from lightning_world import FADING, SIZE, Training, data_of, fit, photos_of, scenes, trainer
from pytorch_lightning.callbacks import ModelCheckpoint, ModelSummary
from pytorch_lightning.loggers import CSVLogger
from pytorch_lightning.tuner import Tuner
from pytorch_lightning.utilities.model_helpers import is_overridden
from torch.utils.data import DataLoader

from live_tensors import LiveTensors, expect_flat
from samples import EVERY_IMAGE
from segpaste import BatchCopyPaste, BatchCopyPasteConfig, create_bank_dataloader
from segpaste.augmentation import PlacementConfig, SourceConfig
from segpaste.bank import zip_loaders
from segpaste.datasets import DatasetError, EpochDataLoader
from segpaste.integrations.lightning import CopyPasteCallback, CopyPasteDataModule
from segpaste.types import BatchedDenseSample, DenseSample, PaddedBatchedDenseSample
from segpaste.viz import show
from small_bank import small_bank
from yolo_files import write_roboflow

EPOCH = 7
"""Steps of an epoch: fourteen scenes in batches of two."""


def padded(samples: list[DenseSample]) -> PaddedBatchedDenseSample:
    return BatchedDenseSample.from_samples(samples).to_padded(24, overflow="largest")


def same(one: PaddedBatchedDenseSample, other: PaddedBatchedDenseSample) -> bool:
    names = ("images", "instance_masks", "labels", "boxes", "instance_valid")
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in names)


class TestTraining:
    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_twenty_steps_twice(self, tmp_path: Path, num_workers: int) -> None:
        alive = LiveTensors()
        first = fit(tmp_path, data_of(scenes(), num_workers), max_steps=20, alive=alive)
        again = fit(tmp_path, data_of(scenes(), num_workers), max_steps=20)
        assert len(first.seen) == 20
        assert torch.tensor([seen.loss for seen in first.seen]).isfinite().all()
        assert first.seen == again.seen
        expect_flat(alive.num_bytes)

    @pytest.mark.slow
    @pytest.mark.parametrize(("name", "num_workers"), [("tiny_coco", 2), ("coco128_seg", 0)])
    def test_twenty_steps_of_photos_twice(self, tmp_path: Path, test_data: Path, name: str, num_workers: int) -> None:
        def seen(alive: LiveTensors | None = None) -> Training:
            return fit(tmp_path, data_of(photos_of(test_data / name), num_workers), max_steps=20, alive=alive)

        alive = LiveTensors()
        first = seen(alive)
        assert len(first.seen) == 20
        assert torch.tensor([s.loss for s in first.seen]).isfinite().all()
        assert first.seen == seen().seen
        expect_flat(alive.num_bytes)

    def test_the_step_sees_what_the_augmentation_makes_of_the_loaders_batch(self, tmp_path: Path) -> None:
        data = data_of(scenes())
        model = fit(tmp_path, data, max_steps=1, config=BatchCopyPasteConfig(placement={"paste_prob": 1.0}))
        plain = next(iter(data.train_dataloader()))
        assert same(model.trained[0], BatchCopyPaste(EVERY_IMAGE)(plain))
        assert not same(model.trained[0], plain)

    def test_eight_images_are_learned(self, tmp_path: Path) -> None:
        data = CopyPasteDataModule(
            scenes(8), batch_size=8, size=SIZE, max_instances=24, scale_range=(1.0, 1.0), hflip_prob=0.0
        )
        torch.manual_seed(0)
        model = Training(rate=0.03)
        trainer(tmp_path, [CopyPasteCallback(BatchCopyPaste(EVERY_IMAGE))], max_epochs=40).fit(model, datamodule=data)
        losses = [seen.loss for seen in model.seen]
        assert len({seen.pixels for seen in model.seen}) == 40  # the pastes are others in each epoch
        assert sum(losses[-5:]) / 5 < losses[0] / 2, losses[::5]

    def test_validation_is_untouched(self, tmp_path: Path) -> None:
        """In the sanity check and after each epoch, also where it comes in the middle of one."""
        data = data_of(scenes())
        model = fit(tmp_path, data, max_epochs=2, val_check_interval=3)
        loaders: Any = data.val_dataloader()
        plain = list(loaders)
        assert len(plain) == 3
        assert [i for i, _ in model.validated] == [0, 1, *range(3), *range(3), *range(3), *range(3)]
        assert all(same(batch, plain[i]) for i, batch in model.validated)
        assert torch.equal(plain[0].images[0], scenes(5)[0].image)

    def test_validate_alone(self, tmp_path: Path) -> None:
        data, model = data_of(scenes()), Training()
        trainer(tmp_path, [CopyPasteCallback(BatchCopyPaste(EVERY_IMAGE))]).validate(
            model, datamodule=data, verbose=False
        )
        assert same(model.validated[0][1], next(iter(data.val_dataloader())))

    @pytest.mark.slow
    def test_a_compiled_augmentation_gives_the_same(self, tmp_path: Path) -> None:
        compiled = torch.compile(BatchCopyPaste(FADING), fullgraph=True)
        torch.manual_seed(0)
        model = Training(compiled)
        data = data_of(scenes())
        made = trainer(tmp_path, [CopyPasteCallback(compiled)], max_steps=9)
        made.fit(model, datamodule=data)
        eager = fit(tmp_path, data, max_steps=9)
        assert model.seen == eager.seen
        assert model.seen[-1].paste_prob < 1

    def test_crops_of_a_bank(self, tmp_path: Path) -> None:
        bank = small_bank(tmp_path / "bank", [0, 1, 2, 1])
        config = BatchCopyPasteConfig(
            placement={"paste_prob": 1.0}, source=SourceConfig(kind="bank", crops_per_target=2)
        )

        def loader() -> Any:
            targets = data_of(scenes()).train_dataloader()
            crops = create_bank_dataloader(bank, batch_size=2, crops_per_target=2, steps=len(targets))
            return zip_loaders(targets, crops)

        model = Training()
        trainer(tmp_path, [CopyPasteCallback(BatchCopyPaste(config))], max_steps=1).fit(model, loader())
        target, crops = next(iter(loader()))
        assert same(model.trained[0], BatchCopyPaste(config)(target, staged=crops))


class TakesPairs(Training):
    """A step that gets batches with crops, and does not paste them."""

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        return super().training_step(batch[0], batch_idx)


def draws_of(printed: str) -> float:
    """The sum of the column of draws, of all tables that were printed."""
    rows = re.findall(r"^\S.*?  +\d+ +[\d.]+% +([\d.]+) +[\d.]+% +[\d.]+$", printed, re.MULTILINE)
    return sum(map(float, rows))


class TestBalance:
    CONFIG = BatchCopyPasteConfig(
        source=SourceConfig(kind="bank", crops_per_target=2),
        placement=PlacementConfig(paste_prob=1.0, scale_range=(0.5, 1.0)),
    )

    @staticmethod
    def data(**options: Any) -> CopyPasteDataModule:
        given = {"batch_size": 1, "max_instances": 24, "balance": "class_uniform", "crops_per_target": 2, **options}
        return CopyPasteDataModule(scenes(), scenes(5), size=SIZE, **given)

    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_batches_of_one_receive_objects_of_the_dataset(
        self, tmp_path: Path, num_workers: int, capsys: pytest.CaptureFixture[str]
    ) -> None:
        model = fit(tmp_path, self.data(num_workers=num_workers), max_steps=10, config=self.CONFIG)
        assert "CopyPasteDataModule" not in capsys.readouterr().out  # the callback knows what is pasted
        plain = [target for target, _ in self.data(num_workers=num_workers).train_dataloader()]
        pixels = [batch.images.double().sum().item() for batch in plain]
        assert sum(seen.pixels != own for seen, own in zip(model.seen, pixels, strict=False)) >= 8

    def test_the_pastes_of_an_epoch_are_told(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """The counts are of the images that are trained on, with the probability that the schedule begins with."""
        source = SourceConfig(kind="bank", crops_per_target=2)
        seldom = BatchCopyPasteConfig(
            source=source, placement=PlacementConfig(paste_prob=0.25, k_range=(2, 2), fade_last=0.5)
        )
        augment = BatchCopyPaste(seldom)
        callback, data = CopyPasteCallback(augment), self.data(batch_size=2)
        trainer(tmp_path, [callback], max_epochs=2).fit(Training(), datamodule=data)
        head = "CopyPasteCallback: pastes expected in an epoch, balance='class_uniform'\n"
        printed = capsys.readouterr().out
        assert printed.count(head) == printed.count("pastes expected") == 1
        assert draws_of(printed) == pytest.approx(14 * 0.25 * 2, abs=0.5)  # each row is rounded
        assert augment.schedule.paste_prob < 0.25
        limited = {"max_epochs": 1, "limit_train_batches": 2}
        trainer(tmp_path, [callback], **limited).fit(Training(), datamodule=data)
        assert draws_of(capsys.readouterr().out) == pytest.approx(4 * 0.25 * 2, abs=0.5)

    def test_crops_that_no_callback_pastes(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Without a callback, or with one whose augmentation does not say how much it pastes."""
        model = TakesPairs()
        trainer(tmp_path, [], max_steps=1).fit(model, datamodule=self.data())
        assert len(model.seen) == 1
        augment = BatchCopyPaste(self.CONFIG)
        paste = CopyPasteCallback(lambda batch, staged: augment(batch, staged=staged))
        trainer(tmp_path, [paste], max_steps=1).fit(Training(), datamodule=self.data())
        printed = capsys.readouterr().out
        assert printed.count("CopyPasteDataModule: crops of an epoch, on each of 1 ranks\n") == 2
        assert "pastes expected" not in printed
        assert draws_of(printed) == pytest.approx(2 * 14 * 2, abs=1)

    def test_crops_that_are_cut_for_nothing(self, tmp_path: Path) -> None:
        callbacks = [CopyPasteCallback(BatchCopyPaste(self.CONFIG))]
        with pytest.warns(UserWarning, match="CopyPasteCallback: expected 2 crops") as found:
            trainer(tmp_path, callbacks, max_steps=3).fit(Training(), datamodule=self.data(crops_per_target=8))
        messages = [str(warning.message) for warning in found if "CopyPasteCallback: " in str(warning.message)]
        assert messages == [
            "CopyPasteCallback: expected 2 crops for each image, since the augmentation pastes no more, got 8; set "
            "crops_per_target=2 in the CopyPasteDataModule or the loader of the crops, or crops_per_target=8 in the "
            "SourceConfig"
        ]

    def test_a_resumed_training_is_the_same(self, tmp_path: Path) -> None:
        whole = fit(tmp_path, self.data(), max_steps=9, every=4, config=self.CONFIG)
        resumed = fit(tmp_path, self.data(), max_steps=9, resume=4, config=self.CONFIG)
        assert resumed.seen == whole.seen[4:]

    def test_two_sources_of_crops(self, tmp_path: Path) -> None:
        callback = CopyPasteCallback(BatchCopyPaste(self.CONFIG, source_pool=scenes()))
        with pytest.raises(ValueError, match="expected an augmentation without source_pool, since the batch has crops"):
            trainer(tmp_path, [callback], max_steps=1).fit(Training(), datamodule=self.data())

    def test_fewer_crops_than_the_augmentation_pastes(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="got 1 x 1; give the loader or the data module this batch_"):
            fit(tmp_path, self.data(crops_per_target=1), max_steps=1, config=self.CONFIG)

    @pytest.mark.parametrize(("size", "fit_into"), [(24, (24, 24)), ((16, 24), (16, 24))])
    def test_objects_shrink_with_images_that_are_larger_than_the_batch(self, size: Any, fit_into: Any) -> None:
        data = CopyPasteDataModule(scenes(), size=size, batch_size=1, balance="class_uniform")
        assert data._pool is not None
        assert data._pool.fit_into == fit_into

    def test_a_mode_that_is_none(self) -> None:
        with pytest.raises(ValueError, match=r"mode or balance: expected natural, .*, got 'fair'"):
            self.data(balance="fair")


class Floats(Training):
    """Makes its batches images of floats, in 0 to a value of white, before they are pasted."""

    def __init__(self, white: float) -> None:
        super().__init__()
        self.white = white

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        target, *crops = batch if isinstance(batch, tuple) else (batch,)
        target = target.derived(images=target.images.float() * (self.white / 255))
        return (target, *crops) if crops else target


class TestTuner:
    """It trains without the callbacks of its trainer."""

    def test_rates_are_tried_on_pasted_batches(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        augment, model = BatchCopyPaste(TestBalance.CONFIG), Training()
        made = trainer(tmp_path, [CopyPasteCallback(augment)], max_epochs=1, logger=CSVLogger(tmp_path / "logs"))
        data = TestBalance.data()
        Tuner(made).lr_find(model, datamodule=data, num_training=4, attr_name="rate")
        assert len(model.seen) == 4
        plain = [target.images.double().sum().item() for target, _ in data.train_dataloader()]
        assert sum(seen.pixels != own for seen, own in zip(model.seen, plain, strict=False)) >= 3
        assert "pastes expected" not in capsys.readouterr().out
        assert not list(tmp_path.rglob("*.jpg"))
        made.fit(model, datamodule=data)
        assert len(model.seen) == 4 + 14
        assert "CopyPasteCallback: pastes expected in an epoch" in capsys.readouterr().out

    def test_batches_grow(self, tmp_path: Path) -> None:
        model, data = Training(), data_of(scenes())
        made = trainer(tmp_path, [CopyPasteCallback(BatchCopyPaste(EVERY_IMAGE))], max_epochs=1)
        assert Tuner(made).scale_batch_size(model, datamodule=data, max_trials=2, steps_per_trial=1) == 4
        assert data.batch_size == 4
        assert {len(seen.seeds) for seen in model.seen} == {2, 4}
        train, val = data.train_dataloader(), data.val_dataloader()
        assert [next(iter(loader)).batch_size for loader in (train, val)] == [4, 4]


class TestFirstBatch:
    def test_a_picture_lies_beside_the_log(self, tmp_path: Path) -> None:
        logger = CSVLogger(tmp_path / "logs", version=0)
        model = fit(
            tmp_path,
            data_of(scenes()),
            max_steps=3,
            logger=logger,
            config=BatchCopyPasteConfig(placement={"paste_prob": 1.0}),
        )
        show(model.trained[0], path=tmp_path / "expected.jpg", class_names=scenes().class_names)
        picture = Path(logger.log_dir) / "copy_paste_batch.jpg"
        assert picture.read_bytes() == (tmp_path / "expected.jpg").read_bytes()

    @pytest.mark.parametrize(("white", "source"), [(1.0, None), (255.0, None), (255.0, 255.0), (4.0, 4.0)])
    def test_images_of_floats(self, tmp_path: Path, white: float, source: float | None) -> None:
        """In 0..``white``, pasted from the batch or, with a value range, from a bank."""
        model, logger = Floats(white), CSVLogger(tmp_path / "logs", version=0)
        given = {} if source is None else {"source": SourceConfig(kind="bank", value_range=source)}
        callbacks = [CopyPasteCallback(BatchCopyPaste(BatchCopyPasteConfig(placement={"paste_prob": 1.0}, **given)))]
        data = data_of(scenes(), **({} if source is None else {"balance": "class_uniform"}))
        trainer(tmp_path, callbacks, max_steps=1, logger=logger).fit(model, datamodule=data)
        options: Any = {"class_names": scenes().class_names, "value_range": (0, white)}
        show(model.trained[0], path=tmp_path / "expected.jpg", **options)
        picture = Path(logger.log_dir) / "copy_paste_batch.jpg"
        assert picture.read_bytes() == (tmp_path / "expected.jpg").read_bytes()

    def test_none_without_a_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """``fast_dev_run`` does so: its logger keeps nothing."""
        monkeypatch.chdir(tmp_path)
        model = fit(tmp_path, data_of(scenes()), logger=True, fast_dev_run=True)
        assert len(model.seen) == 1
        assert not list(tmp_path.rglob("*.jpg"))

    def test_none_without_a_logger_or_if_it_is_switched_off(self, tmp_path: Path) -> None:
        fit(tmp_path, data_of(scenes()), max_steps=1)
        callback = CopyPasteCallback(BatchCopyPaste(EVERY_IMAGE), first_batch=False)
        made = trainer(tmp_path, [callback], max_steps=1, logger=CSVLogger(tmp_path / "logs"))
        made.fit(Training(), datamodule=data_of(scenes()))
        assert not list(tmp_path.rglob("*.jpg"))


class TestResuming:
    @pytest.mark.parametrize(
        ("limits", "steps"),
        [
            ({"max_epochs": 2}, [3, EPOCH, 9]),
            ({"max_steps": 11}, [3, EPOCH, 9]),
            ({"max_epochs": 2, "val_check_interval": 3}, [3, 4]),
            ({"max_epochs": 2, "limit_train_batches": 4}, [2, 4, 5]),
        ],
        ids=str,
    )
    def test_a_resumed_training_is_the_same(self, tmp_path: Path, limits: dict[str, Any], steps: list[int]) -> None:
        """Losses, pastes and their probability: in the middle of an epoch and at its end."""
        whole = fit(tmp_path, data_of(scenes()), every=1, **limits)
        for step in steps:
            assert fit(tmp_path, data_of(scenes()), resume=step, **limits).seen == whole.seen[step:]

    @pytest.mark.parametrize(("step", "says"), [(3, True), (EPOCH, False), (0, False)])
    def test_an_epoch_that_starts_over_is_told(
        self, tmp_path: Path, step: int, says: bool, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
    ) -> None:
        """Lightning makes the loader before it reads its state if the model asks for the number of steps."""
        fit(tmp_path, data_of(scenes()), every=1, max_epochs=2)
        made = Training.configure_optimizers

        def with_steps(model: Training) -> torch.optim.Optimizer:
            assert model.trainer.estimated_stepping_batches == 2 * EPOCH
            return made(model)

        recwarn.clear()
        fit(tmp_path, data_of(scenes()), resume=step, max_epochs=2)
        assert not [w for w in recwarn if "CopyPasteCallback" in str(w.message)]
        monkeypatch.setattr(Training, "configure_optimizers", with_steps)
        fit(tmp_path, data_of(scenes()), resume=step, max_epochs=2)
        found = [
            str(w.message)
            for w in recwarn
            if "CopyPasteCallback: expected the loader at its position" in str(w.message)
        ]
        assert len(found) == says

    def test_with_workers(self, tmp_path: Path) -> None:
        whole = fit(tmp_path, data_of(scenes(), 2), every=3, max_epochs=2)
        assert fit(tmp_path, data_of(scenes(), 2), resume=3, max_epochs=2).seen == whole.seen[3:]

    def test_a_checkpoint_of_an_epochs_end(self, tmp_path: Path) -> None:
        torch.manual_seed(0)
        model, save = Training(), ModelCheckpoint(tmp_path, save_last=True)
        trainer(tmp_path, [CopyPasteCallback(BatchCopyPaste(EVERY_IMAGE)), save], max_epochs=2).fit(
            model, datamodule=data_of(scenes())
        )
        again = Training()
        resumed = trainer(tmp_path, [CopyPasteCallback(BatchCopyPaste(EVERY_IMAGE))], max_epochs=3)
        resumed.fit(again, datamodule=data_of(scenes()), ckpt_path=tmp_path / "last.ckpt")
        torch.manual_seed(0)
        whole = Training()
        trainer(tmp_path, [CopyPasteCallback(BatchCopyPaste(EVERY_IMAGE))], max_epochs=3).fit(
            whole, datamodule=data_of(scenes())
        )
        assert again.seen == whole.seen[2 * EPOCH :]

    def test_a_schedule_that_its_owner_sets(self, tmp_path: Path) -> None:
        """The schedule is in the checkpoint, which torch reads without executing code."""
        augment = BatchCopyPaste(EVERY_IMAGE)
        augment.schedule.set(paste_prob=0.25)
        made = trainer(tmp_path, [CopyPasteCallback(augment, progress=False)], max_steps=2)
        made.fit(Training(), datamodule=data_of(scenes()))
        made.save_checkpoint(tmp_path / "made.ckpt")
        state = torch.load(tmp_path / "made.ckpt", weights_only=True)["callbacks"]["CopyPasteCallback"]
        assert int(state["augment"]["schedule._extra_state"][0]) == 1 << 30
        resumed = BatchCopyPaste(EVERY_IMAGE)
        seen = Training(resumed)
        made = trainer(tmp_path, [CopyPasteCallback(resumed, progress=False)], max_steps=3)
        made.fit(seen, datamodule=data_of(scenes()), ckpt_path=tmp_path / "made.ckpt")
        assert [s.paste_prob for s in seen.seen] == [0.25]

    def test_data_of_another_training_is_refused(self, tmp_path: Path) -> None:
        fit(tmp_path, data_of(scenes()), every=3, max_epochs=1)
        with pytest.raises(ValueError, match="dataset is '14 samples of KeptScenes' in the state and '12 samples"):
            fit(tmp_path, data_of(scenes(12)), resume=3, max_epochs=1)


class TestProgress:
    @pytest.mark.parametrize(
        ("limits", "done"),
        [
            ({"max_epochs": 2}, [step / 14 for step in range(14)]),
            ({"max_steps": 10}, [step / 10 for step in range(10)]),
            ({"max_epochs": 2, "max_steps": 10}, [step / 10 for step in range(10)]),
            ({"max_epochs": 1, "max_steps": 100}, [step / 7 for step in range(7)]),
            ({"max_epochs": 2, "limit_train_batches": 3}, [step / 6 for step in range(6)]),
            ({"max_epochs": 2, "accumulate_grad_batches": 2}, [step / 14 for step in range(14)]),
        ],
        ids=lambda value: str(value) if isinstance(value, dict) else "",
    )
    def test_the_schedule_follows_the_trainer(self, tmp_path: Path, limits: dict[str, Any], done: list[float]) -> None:
        probs = [seen.paste_prob for seen in fit(tmp_path, data_of(scenes()), **limits).seen]
        assert probs == pytest.approx([min(1.0, (1 - part) / 0.75) for part in done], abs=1e-8)

    def test_training_without_an_end(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="expected max_epochs or max_steps in the Trainer"):
            fit(tmp_path, data_of(scenes()), max_epochs=-1)
        model = Training()
        callbacks = [CopyPasteCallback(BatchCopyPaste(EVERY_IMAGE)), Stop(3)]
        trainer(tmp_path, callbacks, max_epochs=-1).fit(model, datamodule=data_of(scenes()))
        assert len(model.seen) == 3


class Stop(lightning.Callback):
    """Ends a training, or fails in it, at a step."""

    def __init__(self, step: int, error: Exception | None = None) -> None:
        self.step, self.error = step, error

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step == self.step:
            trainer.should_stop = True
            if self.error is not None:
                raise self.error


class Normalises(Training):
    """Normalises colours where they are on the device."""

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return batch.derived(images=batch.images.float() / 255)


class Divides(CopyPasteDataModule):
    """The same operation in the DataModule."""

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return batch.derived(images=batch.images.float() / 255)


class TestHook:
    @pytest.mark.parametrize("owner", ["model", "data", "both", "data_without_datamodule"])
    def test_pastes_come_before_the_users_hook(self, tmp_path: Path, owner: str) -> None:
        kind = CopyPasteDataModule if owner == "model" else Divides
        data = kind(scenes(), scenes(5), batch_size=2, size=SIZE, max_instances=24)
        model = Training() if owner.startswith("data") else Normalises()
        made = trainer(tmp_path, [CopyPasteCallback(BatchCopyPaste(EVERY_IMAGE))], max_steps=1)
        plain = next(iter(data.train_dataloader()))
        expected = BatchCopyPaste(EVERY_IMAGE)(plain)
        if owner == "data_without_datamodule":  # its hook is not Lightning's then
            made.fit(model, data.train_dataloader())
            assert same(model.trained[0], expected)
            return
        made.fit(model, datamodule=data)
        assert same(model.trained[0], expected.derived(images=expected.images.float() / 255))
        assert "on_after_batch_transfer" not in {**vars(model), **vars(data)}

    def test_it_is_put_back_after_an_error(self, tmp_path: Path) -> None:
        model, data = Normalises(), data_of(scenes())
        callback = CopyPasteCallback(BatchCopyPaste(EVERY_IMAGE))
        with pytest.raises(OSError, match="disk"):
            trainer(tmp_path, [callback, Stop(2, OSError("disk"))], max_steps=4).fit(model, datamodule=data)
        assert "on_after_batch_transfer" not in vars(model)
        trainer(tmp_path, [callback], max_steps=1).fit(model, datamodule=data)
        assert len(model.seen) == 3

    def test_an_attribute_is_put_back(self, tmp_path: Path) -> None:
        model = Training()
        model.on_after_batch_transfer = own = lambda batch, dataloader_idx: batch
        trainer(tmp_path, [CopyPasteCallback(BatchCopyPaste(EVERY_IMAGE))], max_steps=1).fit(
            model, datamodule=data_of(scenes())
        )
        assert model.on_after_batch_transfer is own

    def test_a_hook_of_the_users_is_not_pretended(self, tmp_path: Path) -> None:
        """Otherwise Lightning would warn of it."""
        found = []

        class Looks(lightning.Callback):
            def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
                found.append(is_overridden("on_after_batch_transfer", pl_module))

        for model in (Training(), Normalises()):
            callbacks = [CopyPasteCallback(BatchCopyPaste(EVERY_IMAGE)), Looks()]
            trainer(tmp_path, callbacks, max_steps=1).fit(model, datamodule=data_of(scenes()))
        assert found == [False, True]

    def test_an_example_input_is_no_batch(self, tmp_path: Path) -> None:
        model = Training()
        model.example_input_array = torch.zeros(1, 3, SIZE, SIZE)
        model.forward = model.net.forward
        callbacks = [CopyPasteCallback(BatchCopyPaste(EVERY_IMAGE)), ModelSummary()]
        made = trainer(tmp_path, callbacks, max_steps=1, enable_model_summary=True)
        made.fit(model, datamodule=data_of(scenes()))
        assert len(model.seen) == 1


class Unseeded(Training):
    """Module that makes padded batches without seeds from lists of samples."""

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return padded(batch)


def test_batches_without_seeds_get_some(tmp_path: Path) -> None:
    """They depend on torch's seed, which the checkpoint keeps for a resumed training, and on the sample's place."""

    paste = CopyPasteCallback(BatchCopyPaste(EVERY_IMAGE))  # for all trainings

    def train(seed: int, resume: bool = False) -> list[list[int]]:
        torch.manual_seed(seed)
        save, model = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=7, save_top_k=-1), Unseeded()
        made = trainer(tmp_path, [paste, save], max_epochs=2)
        path = tmp_path / "step=7.ckpt" if resume else None
        made.fit(model, DataLoader(scenes(), 2, collate_fn=list), ckpt_path=path)  # type: ignore[arg-type]
        return [seen.seeds for seen in model.seen]

    first = train(0)
    assert len({seed for seeds in first for seed in seeds}) == 28
    assert train(1, resume=True) == first[7:]
    assert train(0) == first
    assert train(1) != first


class TakesTheLoader(Training):
    def training_step(self, dataloader_iter: Any) -> torch.Tensor:  # type: ignore[override]
        return self.loss_of(next(dataloader_iter)[0])


class TestErrors:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((BatchCopyPaste,), "expected an augmentation"),
            ((BatchCopyPasteConfig(placement={"paste_prob": 1.0}),), "expected an augmentation"),
            ((BatchCopyPaste(EVERY_IMAGE), 1), "progress: expected bool"),
        ],
    )
    def test_wrong_arguments(self, arguments: Any, message: str) -> None:
        with pytest.raises(TypeError, match=message):
            CopyPasteCallback(*arguments)

    def test_a_batch_of_another_kind(self, tmp_path: Path) -> None:
        loader = DataLoader(scenes(), 2, collate_fn=list)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="or a pair of it and StagedCrops, got list; use Copy"):
            trainer(tmp_path, [CopyPasteCallback(BatchCopyPaste(EVERY_IMAGE))], max_steps=1).fit(Training(), loader)

    def test_a_loader_that_pastes_already(self, tmp_path: Path) -> None:
        loader = BatchCopyPaste.from_dataloader(data_of(scenes()).train_dataloader(), 24)
        with pytest.raises(ValueError, match="got one of from_dataloader, which pastes already"):
            trainer(tmp_path, [CopyPasteCallback(BatchCopyPaste(EVERY_IMAGE))], max_steps=1).fit(Training(), loader)

    def test_a_step_that_takes_the_loader(self, tmp_path: Path) -> None:
        with pytest.raises(RuntimeError, match="that takes dataloader_iter must paste by itself"):
            trainer(tmp_path, [CopyPasteCallback(BatchCopyPaste(EVERY_IMAGE))], max_steps=1).fit(
                TakesTheLoader(), data_of(scenes()).train_dataloader()
            )


class TestDataModule:
    def test_a_folder_has_its_splits(self, tmp_path: Path) -> None:
        write_roboflow(tmp_path, ("train", "valid", "test"))
        data = CopyPasteDataModule(tmp_path, batch_size=2, size=32)
        assert data.train_data.annotations_file.parent.name == "train"
        assert data.val_data is not None
        assert data.val_data.annotations_file.parent.name == "valid"
        other = CopyPasteDataModule(tmp_path, batch_size=2, size=32, split="valid", val_split="test")
        assert other.train_data.annotations_file.parent.name == "valid"
        assert other.val_data is not None
        assert other.val_data.annotations_file.parent.name == "test"
        own = scenes(3)
        assert CopyPasteDataModule(tmp_path, own, batch_size=2, size=32).val_data is own

    def test_a_split_to_test_on(self, tmp_path: Path) -> None:
        write_roboflow(tmp_path, ("train", "valid", "test"))
        for options, name in (({}, "test"), ({"test_split": "valid"}, "valid")):
            data, model = CopyPasteDataModule(tmp_path, batch_size=2, size=32, **options), Training()
            trainer(tmp_path, [CopyPasteCallback(BatchCopyPaste(EVERY_IMAGE))]).test(
                model, datamodule=data, verbose=False
            )
            plain = CopyPasteDataModule(tmp_path, batch_size=2, size=32, val_split=name).val_dataloader()
            assert all(same(batch, own) for (_, batch), own in zip(model.validated, plain, strict=True))
        own = CopyPasteDataModule(scenes(2), test=scenes(3), batch_size=3, size=SIZE).test_dataloader()
        assert next(iter(own)).batch_size == 3

    def test_nothing_to_test_on(self, tmp_path: Path) -> None:
        write_roboflow(tmp_path, ("train", "test", "test2"))
        with pytest.raises(DatasetError, match="expected one split for testing, got test, test2; give test_split="):
            CopyPasteDataModule(tmp_path, batch_size=1).test_dataloader()
        with pytest.raises(DatasetError, match="expected a dataset as test, or a path with a split that begins with t"):
            data_of(scenes(2)).test_dataloader()

    def test_a_folder_without_a_split_for_validation(self, tmp_path: Path) -> None:
        write_roboflow(tmp_path, ("train", "test"))
        data = CopyPasteDataModule(tmp_path, batch_size=1, size=32)
        assert data.val_data is None
        model = Training()
        trainer(tmp_path, [CopyPasteCallback(BatchCopyPaste(EVERY_IMAGE))], max_steps=2).fit(model, datamodule=data)
        assert len(model.seen) == 2
        assert model.validated == []

    def test_options_reach_the_loaders(self) -> None:
        data = data_of(scenes(), base_seed=7, drop_last=True, scale_range=(0.5, 0.5), on_error="skip")
        train, val = data.train_dataloader(), data.val_dataloader()
        assert isinstance(val, EpochDataLoader)
        assert train.identity()["loader_seed"] == val.identity()["loader_seed"] == 7
        assert (train.drop_last, val.drop_last) == (True, False)
        assert (train.on_error, val.on_error) == ("skip", "skip")
        assert next(iter(train)).padding_mask is not None
        assert [key[4] for batch in val for key in batch.sample_keys.tolist()] == [0, 1, 2, 3, 4]

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"split": "train"}, ValueError, "expected split, val_split and test_split with a path only, got Kept"),
            ({"val_split": "val"}, ValueError, "expected a dataset as val or a val_split, got both"),
            ({"test": [], "test_split": "a"}, ValueError, "expected a dataset as test or a test_split, got both"),
            ({"batchsize": 3}, TypeError, "batchsize"),
            ({"drop_last": 3}, TypeError, "drop_last: expected bool"),
        ],
    )
    def test_wrong_arguments(self, options: Any, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            data_of(scenes(), **options)

    def test_several_splits_for_validation(self, tmp_path: Path) -> None:
        write_roboflow(tmp_path, ("train", "val", "valid"))
        with pytest.raises(DatasetError, match="expected one split for validation, got val, valid; give val_split="):
            CopyPasteDataModule(tmp_path, batch_size=1)
        assert CopyPasteDataModule(tmp_path, batch_size=1, val_split="val").val_data is not None
        assert len(CopyPasteDataModule(tmp_path, scenes(3), batch_size=1).val_data or []) == 3
