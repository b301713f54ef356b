"""Shared code of the cases of `benchmarks.trainer_steps`: interleaved steps, also within a Lightning training."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.types import BatchedDenseSample, PaddedBatchedDenseSample

NUM_CLASSES = 8
MAX_INSTANCES = 32
COLOURS = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}

Augments = dict[str, Callable[..., Any]]
Times = dict[str, list[tuple[float, float]]]
"""(CPU, wall) milliseconds of each part."""


@dataclasses.dataclass(frozen=True)
class Case:
    """Something to train.

    Attributes:
        batch: what the batch and the model are, in words.
        plain: the batch that the framework's step takes where nothing is pasted.
        source: the batch that ``paste`` takes.
        paste: called with an augmentation and ``source``; gives what ``step`` takes.
        step: forward, losses, backward, optimizer.
        note: where it compiles.
    """

    batch: str
    plain: Any
    source: Any
    paste: Callable[[Callable[..., Any], Any], Any]
    step: Callable[[Any], object]
    note: str = ""

    def turns(self, augments: Augments, seconds: float, at_least: int) -> Times:
        """Times of a step, of each paste and of a step with the first paste, after one of each that does not count.

        As many turns as begin within so many CPU seconds, and at least so many.
        """
        first = next(iter(augments))
        for augment in reversed(augments.values()):  # the compiled one is compiled here
            pasted = self.paste(augment, self.source)
        self.step(self.plain)
        self.step(pasted)
        times: Times = {name: [] for name in ("step", *augments, "step with paste")}
        start = time.process_time()
        while len(times["step"]) < at_least or time.process_time() - start < seconds:
            times["step"].append(clocked(self.step, self.plain)[1])
            for name, augment in augments.items():
                out, spent = clocked(self.paste, augment, self.source)
                times[name].append(spent)
                pasted = out if name == first else pasted
            step = clocked(self.step, pasted)[1]
            times["step with paste"].append((step[0] + times[first][-1][0], step[1] + times[first][-1][1]))
        return times


@dataclasses.dataclass(frozen=True)
class Kind:
    """A case before it is made.

    Attributes:
        title: of its row.
        environment: folder of the environment below ``--trainers``; empty for the one that runs this.
        make: called with the image side, the batch size and an empty folder.
    """

    title: str
    environment: str
    make: Callable[[int, int, Path], Any]


def scenes(size: int, num: int) -> SceneDataset:
    """Scenes with two to five objects."""
    config = SceneConfig(height=size, width=size, num_objects_range=(2, 5), num_classes=NUM_CLASSES)
    return SceneDataset(num, config, seed=0, modalities=["image", "instance"])


def padded_scenes(size: int, num: int) -> PaddedBatchedDenseSample:
    """A padded batch of scenes."""
    samples = scenes(size, num)
    return BatchedDenseSample.from_samples([samples[n] for n in range(num)]).to_padded(MAX_INSTANCES)


def clocked(function: Callable[..., Any], *args: Any) -> tuple[Any, tuple[float, float]]:
    """Return the result of a function, and the (CPU, wall) milliseconds that it took."""
    start = _now()
    out = function(*args)
    return out, _since(start)


def _now() -> tuple[float, float]:
    return time.process_time(), time.perf_counter()


def _since(start: tuple[float, float]) -> tuple[float, float]:
    cpu, wall = _now()
    return (cpu - start[0]) * 1e3, (wall - start[1]) * 1e3


def descend(optimizer: torch.optim.Optimizer, loss: Any) -> None:
    """Take a step down a loss."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


@dataclasses.dataclass(frozen=True)
class LightningCase:
    """A training of Lightning, in which the augmentation of the callback changes from step to step.

    A step is all between the ends of two steps: the callback, the hooks of Lightning and what the model does.
    """

    batch: str
    source: PaddedBatchedDenseSample
    compiled: bool
    note: str

    def turns(self, augments: Augments, seconds: float, at_least: int) -> Times:
        """Times as those of `Case.turns`; steps with the compiled paste are not in the table."""
        import lightning.pytorch as framework

        from segpaste.integrations.lightning import CopyPasteCallback

        choices: Augments = {"step": lambda batch: batch, **augments}
        names, pastes = list(choices), {name: [] for name in choices}
        steps: Times = {name: [] for name in choices}
        count = 0

        def augment(batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
            name = names[count % len(names)]
            out, spent = clocked(choices[name], batch)
            pastes[name].append(spent)
            return out

        class Clock(framework.Callback):
            def on_train_batch_end(self, trainer: Any, *args: Any) -> None:
                nonlocal count, began
                steps[names[count % len(names)]].append(_since(began))
                count, began = count + 1, _now()
                enough = count >= (at_least + 1) * len(names) and time.process_time() - start > seconds
                trainer.should_stop = enough and count % len(names) == 0

        def batches() -> Iterator[PaddedBatchedDenseSample]:
            while True:
                yield self.source

        class Endless(torch.utils.data.IterableDataset[Any]):
            def __iter__(self) -> Iterator[PaddedBatchedDenseSample]:
                return batches()

        quiet: Any = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
        quiet |= {"enable_checkpointing": False, "accelerator": "cpu", "devices": 1, "max_epochs": 1}
        trainer = framework.Trainer(callbacks=[CopyPasteCallback(augment, progress=False), Clock()], **quiet)
        start = time.process_time()
        began = _now()
        trainer.fit(_lraspp(framework, self.compiled), torch.utils.data.DataLoader(Endless(), batch_size=None))
        found = {"step": steps["step"], **{name: pastes[name] for name in augments}, "step with paste": steps["paste"]}
        return {name: values[1:] for name, values in found.items()}  # the first of each does not count


def _lraspp(framework: Any, compiled: bool) -> Any:
    """A model that finds the pixels of each class."""
    from torchvision.models.segmentation import lraspp_mobilenet_v3_large

    class Segmenter(framework.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=NUM_CLASSES)
            if compiled:
                self.net.compile()

        def training_step(self, batch: PaddedBatchedDenseSample, batch_idx: int) -> torch.Tensor:
            of_class = torch.nn.functional.one_hot(batch.labels, NUM_CLASSES) * batch.instance_valid[..., None]
            wanted = torch.einsum("bkc,bkhw->bchw", of_class.float(), batch.instance_masks.float()).clamp(max=1)
            scores = self.net(batch.images / 255)["out"]
            return torch.nn.functional.binary_cross_entropy_with_logits(scores, wanted)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    return Segmenter()


def lightning(size: int, batch_size: int, folder: Path, compiled: bool = False) -> LightningCase:
    """LR-ASPP with a MobileNet."""
    name = f"LR-ASPP, MobileNetV3, {batch_size} × {size}²"
    note = "The model is compiled." if compiled else ""
    return LightningCase(name, padded_scenes(size, batch_size), compiled, note)
