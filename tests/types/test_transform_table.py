"""Effect of each transform of torchvision.transforms.v2 on each container, and the table of it in the guide.

`SEGPASTE_WRITE_TABLES=1` writes the table anew.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
import pickle
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from coded_samples import assert_boxes_fit, assert_follows, coded_sample
from record_cases import make_records
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torchvision.transforms import v2
from transform_cases import CASES, SIZE

from samples import assert_same, batch_of, make_batch, make_samples
from segpaste.types import BatchedDenseSample, DenseSample, PaddedBatchedDenseSample

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "transforms.md"
MARKS = "<!-- table: written by tests/types/test_transform_table.py -->", "<!-- end of the table -->"
SHIFTS = (0, 37)
SEEDS = (0, 1, 2)
SLOTS = 12

Apply = Callable[[Any, list[DenseSample]], list[DenseSample]]


def _to_sample(transform: Any, samples: list[DenseSample]) -> list[DenseSample]:
    return [transform(samples[1])]


def _to_dict(transform: Any, samples: list[DenseSample]) -> list[DenseSample]:
    return [DenseSample.from_dict(transform(samples[1].to_dict()))]


def _to_ragged(transform: Any, samples: list[DenseSample]) -> list[DenseSample]:
    out = transform(BatchedDenseSample.from_samples(samples))
    assert type(out) is BatchedDenseSample
    return out.to_samples()


def _to_padded(transform: Any, samples: list[DenseSample]) -> list[DenseSample]:
    seeds = torch.tensor([5, 7])
    out = transform(batch_of(samples, SLOTS, sample_seeds=seeds))
    assert type(out) is PaddedBatchedDenseSample
    assert torch.equal(out.sample_seeds, seeds)
    assert out.max_instances == SLOTS
    assert all(type(v) is Tensor for f in dataclasses.fields(out) if isinstance(v := getattr(out, f.name), Tensor))
    return out.to_batched().to_padded(SLOTS).to_batched().to_samples()


CONTAINERS: Mapping[str, Apply] = {
    "`DenseSample`": _to_sample,
    "`to_dict()`": _to_dict,
    "`BatchedDenseSample`": _to_ragged,
    "`PaddedBatchedDenseSample`": _to_padded,
}
MOVED, IMAGE, BOXES, SAME, REFUSED = "all fields", "image", "boxes", "no change", "refused"


def observed(name: str, apply: Apply, *, with_maps: bool) -> tuple[str, str]:
    """Return the effects of the transforms of a class, and the first line of their error if they are rejected.

    A field that disagrees with the image fails the test.
    """
    case, found, message = CASES[name], set(), ""
    for make in case.makers:
        for seed in SEEDS:
            torch.manual_seed(seed)
            indices = [1, 1] if apply in (_to_sample, _to_dict) else [0, 1]
            samples = [coded_sample(SHIFTS[i], case.image_dtype, with_maps=with_maps) for i in indices]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                transform = make()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    after = apply(transform, samples)
            except (TypeError, ValueError, IndexError) as error:
                found.add(REFUSED)
                message = message or str(error).splitlines()[0]
                continue
            before = samples if len(after) == 2 else samples[1:]
            shifts = SHIFTS if len(after) == 2 else SHIFTS[1:]
            found |= {_change(case.kind, *parts) for parts in zip(before, after, shifts, strict=True)}
    changes = found - {SAME} or found
    assert len(changes) == 1, f"{name} does several things: {changes}"
    return changes.pop(), message


def _change(kind: str, before: DenseSample, after: DenseSample, shift: int) -> str:
    if kind == "geometry":
        assert_follows(after, shift)
        return MOVED
    assert_boxes_fit(after)
    assert_same(dataclasses.replace(after, image=before.image, boxes=before.boxes), before)
    changed = not torch.equal(before.boxes, after.boxes), not _equal(before.image, after.image)
    assert kind == "colour" or not changed[1]
    assert not all(changed)
    return BOXES if changed[0] else IMAGE if changed[1] else SAME


def _equal(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(one, other)


def classes() -> list[str]:
    """Every public transform class of the installed torchvision."""
    found = [(name, value) for name, value in vars(v2).items() if inspect.isclass(value) and not name.startswith("_")]
    return sorted(name for name, value in found if issubclass(value, nn.Module) and value is not v2.Transform)


def test_every_transform_has_a_case() -> None:
    assert set(classes()) <= set(CASES), "a transform of torchvision is new: say in transform_cases.py how to make it"


@functools.cache
def cell(name: str, container: str) -> tuple[str, str]:
    """The cell of the table, and what to do instead where it is refused."""
    (full, message), (few, _) = (observed(name, CONTAINERS[container], with_maps=maps) for maps in (True, False))
    if full == REFUSED and few != REFUSED:
        return "with masks only", message
    assert full == few
    return full, message


def row(name: str) -> str:
    return "| " + " | ".join([f"`{name}`", *(cell(name, container)[0] for container in CONTAINERS)]) + " |"


def advice(name: str) -> str | None:
    found = [cell(name, container) for container in CONTAINERS if container != "`to_dict()`"]
    messages = dict.fromkeys(
        message.partition(": ")[2].rpartition(": ")[2] for kind, message in found if kind == REFUSED
    )
    return f"| `{name}` | {'; '.join(messages)} |" if messages else None


@pytest.mark.parametrize("name", [name for name in CASES if hasattr(v2, name)])
class TestEveryTransform:
    @pytest.mark.parametrize("container", CONTAINERS)
    def test_moves_all_fields_or_is_refused(self, name: str, container: str) -> None:
        """The guide says which."""
        kind, message = cell(name, container)
        if os.environ.get("SEGPASTE_WRITE_TABLES") != "1":
            assert row(name) in PAGE.read_text(encoding="utf-8").splitlines(), f"{name} on {container}: {kind}"
        if kind in (REFUSED, "with masks only") and container != "`to_dict()`":
            assert re.match(r"transforms\.v2 \w+: |\w+Sample\.boxes", message), message
            assert re.search("use|give|drop|paste|convert", message, re.IGNORECASE), message


def table() -> str:
    head = ["| transform | " + " | ".join(CONTAINERS) + " |", "|---" * (len(CONTAINERS) + 1) + "|"]
    names = [name for name in sorted(CASES) if hasattr(v2, name)]
    refused = [line for name in names if (line := advice(name)) is not None]
    return "\n".join([*head, *(row(name) for name in names), "", "| refused | instead |", "|---|---|", *refused])


def test_the_guide_has_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    if os.environ.get("SEGPASTE_WRITE_TABLES") == "1":
        PAGE.write_text(f"{before}{MARKS[0]}\n\n{table()}\n\n{MARKS[1]}{after}", encoding="utf-8")
        return
    lines = rest.split(MARKS[1])[0].splitlines()
    assert {line.split("`")[1] for line in lines if line.startswith("| `")} >= set(classes())
    assert set(table().splitlines()) <= set(lines)


class TestBatches:
    def test_one_draw_moves_all_samples_alike(self) -> None:
        batch = BatchedDenseSample.from_samples([coded_sample(s, torch.float32, with_maps=True) for s in SHIFTS])
        flips = set()
        for seed in range(8):
            torch.manual_seed(seed)
            moved = v2.RandomHorizontalFlip(0.5)(batch)
            flips.add(tuple(not torch.equal(a, b) for a, b in zip(batch.images, moved.images, strict=True)))
        assert flips == {(True, True), (False, False)}

    def test_map_samples_draws_for_each(self) -> None:
        batch = BatchedDenseSample.from_samples([coded_sample(s, torch.float32, with_maps=True) for s in SHIFTS])
        flips = set()
        for seed in range(16):
            torch.manual_seed(seed)
            moved = batch.map_samples(v2.RandomHorizontalFlip(0.5))
            for sample, shift in zip(moved.to_samples(), SHIFTS, strict=True):
                assert_follows(sample, shift)
            flips.add(tuple(not torch.equal(a, b) for a, b in zip(batch.images, moved.images, strict=True)))
        assert len(flips) == 4

    @pytest.mark.parametrize("transform", [v2.RandomHorizontalFlip(1.0), v2.Resize((9, 7)), v2.CenterCrop(5)])
    def test_without_images(self, transform: Any) -> None:
        ragged = BatchedDenseSample.from_samples(make_samples(2, metric_depth=True))
        empty = BatchedDenseSample.from_samples([], empty_like=ragged)
        assert transform(empty).batch_size == 0
        out = transform(empty.to_padded(3))
        assert out.canvas_size == transform(ragged).canvas_size
        assert empty.map_samples(transform) is empty

    def test_padded_slots_stay_zero(self) -> None:
        samples = [coded_sample(s, torch.float32, with_maps=True) for s in SHIFTS]
        moved = v2.RandomVerticalFlip(1.0)(batch_of(samples, SLOTS))
        for name in ("boxes", "labels", "instance_ids", "instance_masks"):
            assert not getattr(moved, name)[~moved.instance_valid].any(), name


class _Jittered(nn.Module):
    def forward(self, batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
        flip: Any = v2.RandomHorizontalFlip(1.0)
        moved: PaddedBatchedDenseSample = flip(batch.derived(images=batch.images / 2))
        return moved


class TestAround:
    """The same holds inside dictionaries, pickled transforms and workers."""

    def test_in_a_dictionary_beside_other_values(self) -> None:
        sample = coded_sample(3, torch.float32, with_maps=True)
        out = v2.RandomHorizontalFlip(1.0)({"sample": sample, "list": [sample], "name": "x"})
        for moved in (out["sample"], *out["list"]):
            assert_follows(moved, 3)
        assert out["name"] == "x"

    def test_a_pickled_transform(self) -> None:
        transform = pickle.loads(pickle.dumps(v2.Compose([v2.RandomHorizontalFlip(1.0), v2.Pad(2)])))
        batch = BatchedDenseSample.from_samples([coded_sample(s, torch.float32, with_maps=True) for s in SHIFTS])
        for moved, shift in zip(transform(batch.to_padded(SLOTS)).to_batched().to_samples(), SHIFTS, strict=True):
            assert_follows(moved, shift)

    def test_in_a_worker(self) -> None:
        samples: Any = make_samples(4, metric_depth=True)
        flip = v2.RandomHorizontalFlip(1.0)
        collate = functools.partial(_flipped, flip)
        (batch,) = DataLoader(samples, batch_size=4, num_workers=1, collate_fn=collate)
        assert_same(batch, flip(batch_of(samples, SLOTS)))

    def test_a_transform_of_ones_own(self) -> None:
        class Mirror(v2.Transform):
            def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
                return self._call_kernel(v2.functional.horizontal_flip, inpt)

        batch = BatchedDenseSample.from_samples([coded_sample(s, torch.float32, with_maps=True) for s in SHIFTS])
        for moved, shift in zip(Mirror()(batch.to_padded(SLOTS)).to_batched().to_samples(), SHIFTS, strict=True):
            assert_follows(moved, shift)

    @pytest.mark.parametrize("labels_getter", ["default", None, lambda sample: sample.labels])
    def test_boxes_are_not_sanitized(self, labels_getter: Any) -> None:
        """By default the transform looks for labels before it flattens its input."""
        samples = make_samples(2)
        ragged = BatchedDenseSample.from_samples(samples)
        sanitize = v2.SanitizeBoundingBoxes(labels_getter=labels_getter)
        for given in (samples[0], ragged, ragged.to_padded(SLOTS)):
            name = type(given).__name__
            if name == "BatchedDenseSample" and callable(labels_getter):
                continue  # of lists of labels it says itself what it expects
            words = (
                rf"transforms\.v2 SanitizeBoundingBoxes: cannot be applied to a {name}: .*SanitizeInstances on samples"
            )
            with pytest.raises(TypeError, match=words):
                sanitize(given)
        assert f"{samples[0]}" == str(samples[0])

    @pytest.mark.parametrize("name", ["staged", "report", "placement", "summary"])
    def test_what_no_transform_moves_is_refused(self, name: str) -> None:
        with pytest.raises(TypeError, match=r"transforms.v2 ColorJitter: expected a sample or a batch.*leave it out"):
            v2.ColorJitter()(make_records()[name])

    def test_compiled_it_does_the_same_or_is_refused(self) -> None:
        batch = make_batch(modalities=[], image_dtype=torch.float32)  # more classes of tensors take more compilations
        torch.compiler.reset()
        moved = torch.compile(_Jittered(), backend="eager")(batch)
        assert_same(moved, _Jittered()(batch))
        assert not torch.equal(moved.boxes, batch.boxes)
        torch.compiler.reset()
        with pytest.raises(torch._dynamo.exc.Unsupported, match="call transforms outside of the compiled function"):
            torch.compile(_Jittered(), backend="eager", fullgraph=True)(batch)


def _flipped(transform: Any, samples: list[DenseSample]) -> PaddedBatchedDenseSample:
    out: PaddedBatchedDenseSample = transform(batch_of(samples, SLOTS))
    return out


def test_the_size_of_the_cases_is_that_of_the_samples() -> None:
    assert coded_sample(0, torch.float32, with_maps=True).canvas_size == SIZE
