"""The output of a custom source is checked, with errors that name the class, the field and the mistake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from samples import CPU_BACKENDS, assert_same, make_batch
from segpaste.augmentation import (
    BatchCopyPaste,
    BatchCopyPasteConfig,
    LayerRows,
    Placement,
    PlacementConfig,
    PlacementCounts,
    PlacementRequest,
    RowStrategy,
)
from segpaste.engine import use_backend
from segpaste.engine.schema import SCALE_DEN
from segpaste.experimental import LayerSources, draw_placement
from segpaste.seeding import random_integers
from segpaste.types import Modality, PaddedBatchedDenseSample

Sampled = tuple[PaddedBatchedDenseSample, Placement, PlacementCounts]


def changed(field: str, change: Callable[[Tensor], Any]) -> Callable[[Sampled], Any]:
    """Return a mistake in one field of the placement."""
    return lambda s: (s[0], replace(s[1], **{field: change(getattr(s[1], field))}), s[2])


def set_to(value: Any) -> Callable[[Tensor], Tensor]:
    return lambda t: torch.full_like(t, value)


MISTAKES: dict[str, tuple[Callable[[Sampled], Any], type[Exception], str]] = {
    "two of three": (
        lambda s: s[:2],
        TypeError,
        r"got \(PaddedBatchedDenseSample, Placement\); return all",
    ),
    "no tuple": (lambda s: s[1], TypeError, "PlacementCounts.*got Placement;"),
    "float places": (changed("translate", Tensor.float), TypeError, "Placement.translate: .*int64, got float32"),
    "a list": (
        changed("hflip", Tensor.tolist),
        TypeError,
        "hflip: expected a torch.Tensor, got list",
    ),
    "one number of scales": (
        changed("scale_num", lambda t: t[..., 0]),
        ValueError,
        r"Placement.scale_num: expected 3 dimensions \[B, L, 2\], got shape \[3, 2\]",
    ),
    "flat rows": (
        changed("source_idx", Tensor.flatten),
        ValueError,
        r"source_idx: expected 2 dimensions \[B, L\], got shape \[6\]",
    ),
    "slots of another batch": (
        changed("carried", lambda t: t[..., :3]),
        ValueError,
        r"Placement.carried: expected shape \[B, L, K_s\] with K_s=6, got \[3, 2, 3\]",
    ),
    "rows that are not there": (
        changed("source_idx", set_to(3)),
        ValueError,
        "source_idx: expected rows of the source batch, from 0 to 2, got 3",
    ),
    "a scale of nothing": (changed("scale_num", set_to(0)), ValueError, "scale_num: expected parts of a scale, from 1"),
    "a scale without taps": (
        changed("scale_den", lambda t: t * 99),
        ValueError,
        r"expected scales of at least 0\.5, .*; draw larger ones",
    ),
    "no layer": (
        lambda s: (s[0], Placement(**{f.name: getattr(s[1], f.name)[:, :0] for f in fields(Placement)}), s[2]),
        ValueError,
        "expected at least one layer, .*, got 0 and 6",
    ),
    "a scale of more than 30 bits": (
        changed("scale_num", set_to((1 << 30) + 1)),
        ValueError,
        "scale_num: expected parts of a scale, from 1 to 1073741824",
    ),
    "a place out of reach": (changed("translate", set_to(1 << 40)), ValueError, "translate: expected pixels, from -"),
    "an empty slot": (
        changed("carried", set_to(True)),
        ValueError,
        "carried: expected only slots that hold an instance .*got slot 2 in layer 0 of target 0",
    ),
    "a layer that is off": (
        changed("layer_valid", set_to(False)),
        ValueError,
        "expected slots of valid layers",
    ),
    "wrong counts": (
        lambda s: (s[0], s[1], replace(s[2], does_not_fit=s[2].does_not_fit + 1)),
        ValueError,
        r"expected tried = carried \+ no_source .*for target 0",
    ),
    "counts in floats": (
        lambda s: (s[0], s[1], replace(s[2], tried=s[2].tried.float())),
        TypeError,
        "PlacementCounts.tried: expected dtype int64, got float32",
    ),
    "crops without masks": (
        lambda s: (s[0].derived(instance_masks=None, instance_ids=None), s[1], s[2]),
        ValueError,
        "expected instance masks in the source batch",
    ),
}


class Clumsy:
    """Source that draws as the guide's example does, and makes a mistake."""

    def __init__(
        self,
        mistake: Callable[[Sampled], Any] = lambda s: s,
        mistake_before: Callable[[LayerSources], LayerSources] = lambda s: s,
    ) -> None:
        self.mistake = mistake
        self.mistake_before = mistake_before

    def sample(self, target: PaddedBatchedDenseSample, eligible: Tensor, request: PlacementRequest) -> Sampled:
        layers = torch.arange(request.config.layers, device=target.device)
        rows = random_integers(request.seeds[:, None], "donor", 0, target.batch_size - 1, layers)
        sources = self.mistake_before(LayerSources.of_rows(target, rows, eligible))
        drawn: Sampled = self.mistake((target, *draw_placement(request, sources)))
        return drawn

    def rows(self, target: PaddedBatchedDenseSample, candidates: Tensor, request: PlacementRequest) -> LayerRows:
        rows: LayerRows = self.mistake(LayerRows(torch.zeros(3, 1, dtype=torch.int64), candidates[:, None]))  # type: ignore[arg-type]
        return rows


BATCH = make_batch(
    3, size=(48, 64), num_instances=2, max_instances=6, modalities={Modality.INSTANCE, Modality.SEMANTIC}
)
CONFIG = BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=1.0, layers=2, k_range=(2, 2), max_attempts=8))


@pytest.mark.parametrize("kernels", CPU_BACKENDS)
class TestSamples:
    def test_a_right_one_pastes(self, kernels: str) -> None:
        with use_backend(kernels):
            out, report = BatchCopyPaste(CONFIG, source=Clumsy())(BATCH, return_report=True)
        assert report.num_placed.sum() > 0
        assert (out.images != BATCH.images).any()

    @pytest.mark.parametrize("name", MISTAKES)
    def test_a_mistake_is_named(self, kernels: str, name: str) -> None:
        mistake, error, message = MISTAKES[name]
        prefix = "" if name == "crops without masks" else "Clumsy.sample: "
        with use_backend(kernels), pytest.raises(error, match=prefix + ".*" + message):
            BatchCopyPaste(CONFIG, source=Clumsy(mistake))(BATCH)

    @pytest.mark.parametrize("shared", [("boxes", "labels"), ("images",), ()])
    def test_in_place_a_source_may_share_tensors_with_the_target(self, kernels: str, shared: tuple[str, ...]) -> None:
        """Rows that are written are read by later ones."""

        def apart(sampled: Sampled) -> Sampled:
            source, *drawn = sampled
            own = source.clone()
            return own.derived(**{name: getattr(source, name) for name in shared}), *drawn  # type: ignore[return-value]

        with use_backend(kernels):
            for seed in range(8):
                batch = make_batch(5, size=(33, 41), num_instances=(1, 3), max_instances=6, seed=seed)
                expected = BatchCopyPaste(CONFIG, source=Clumsy())(batch)
                found = BatchCopyPaste(CONFIG, source=Clumsy(apart), inplace=True)(batch.clone())
                assert_same(found, expected)

    def test_more_than_there_is_room_for(self, kernels: str) -> None:
        def crowded(sampled: Sampled) -> Sampled:
            source, placement, counts = sampled
            held = source.instance_valid[placement.source_idx]
            maps = {f.name: torch.cat([getattr(placement, f.name)] * 3, 1) for f in fields(Placement)}
            maps |= {"carried": torch.cat([held] * 3, 1), "layer_valid": torch.ones_like(maps["layer_valid"])}
            return source, Placement(**maps), counts

        with use_backend(kernels), pytest.raises(ValueError, match=r"carried: expected at most 4 slots for target 0"):
            BatchCopyPaste(CONFIG, source=Clumsy(crowded))(BATCH)


WRONG_ROWS: dict[str, tuple[Callable[[LayerRows], Any], type[Exception], str]] = {
    "a tuple": (tuple, TypeError, r"expected LayerRows\(source_idx, layer_valid\), got tuple"),
    "a row too far": (lambda r: r._replace(source_idx=r[0] + 3), ValueError, "rows of the batch, from 0 to 2, got 3"),
    "no layers": (
        lambda r: r._replace(layer_valid=r[1][:, 0]),
        ValueError,
        r"expected 2 dimensions \[B, L\], got shape \[3\]",
    ),
    "32 bits": (lambda r: r._replace(source_idx=r[0].int()), TypeError, "expected dtype int64, got int32"),
}


@pytest.mark.parametrize("name", WRONG_ROWS)
def test_wrong_rows_are_named(name: str) -> None:
    mistake, error, message = WRONG_ROWS[name]
    source = Clumsy(mistake)  # type: ignore[arg-type]
    assert isinstance(source, RowStrategy)
    with pytest.raises(error, match="Clumsy.rows: .*" + message):
        BatchCopyPaste(BatchCopyPasteConfig(placement={"paste_prob": 1.0}, emit_classmix=True), source=source)(BATCH)


@pytest.mark.parametrize("layers", [1, 3])
def test_wrong_rows_in_compiled_code_do_not_end_the_process(layers: int) -> None:
    def too_far(rows: LayerRows) -> LayerRows:
        return rows._replace(source_idx=rows.source_idx + 1_000_000)

    config = BatchCopyPasteConfig(placement={"paste_prob": 1.0}, emit_classmix=True)
    paste = BatchCopyPaste(config, source=Clumsy(too_far))  # type: ignore[arg-type]
    batch = BATCH.derived(sample_seeds=torch.arange(3))
    with use_backend("native"), pytest.raises(ValueError, match="expected source_idx to be rows of the source batch"):
        torch.compile(paste, backend="aot_eager")(batch)


WRONG_SOURCES: dict[str, tuple[dict[str, Callable[[Tensor], Any]], type[Exception], str]] = {
    "flags as integers": (
        {"eligible": Tensor.long},
        TypeError,
        "LayerSources.eligible: expected dtype bool, got int64",
    ),
    "boxes as edges": ({"boxes": Tensor.float}, TypeError, "LayerSources.boxes: expected dtype int64, got float32"),
    "labels of 32 bits": ({"labels": Tensor.int}, TypeError, "LayerSources.labels: expected dtype int64, got int32"),
    "one layer of three": (
        {"boxes": lambda t: t[:, :1]},
        ValueError,
        r"LayerSources.boxes: expected shape \[B, L, K_s, 4\] with L=3, got \[3, 1, 6, 4\]",
    ),
    "rows of one target": (
        {"source_idx": lambda t: t[:1]},
        ValueError,
        r"LayerSources.source_idx: expected shape \[B, L\] with B=3, got \[1, 3\]",
    ),
    "shrunk of targets": (
        {"shrunk": lambda t: t[:, 0]},
        ValueError,
        r"LayerSources.shrunk: expected 2 dimensions \[B, L\], got shape \[3\]",
    ),
    "far too shrunk": ({"shrunk": lambda t: t << 40}, ValueError, "LayerSources.shrunk: expected 1 to [0-9]+, over"),
    "shrunk to nothing": (
        {"shrunk": torch.zeros_like},
        ValueError,
        "LayerSources.shrunk: expected 1 to [0-9]+, over SCALE_DEN = [0-9]+, got 0",
    ),
}


@pytest.mark.parametrize("name", WRONG_SOURCES)
@pytest.mark.parametrize("kernels", CPU_BACKENDS)
def test_wrong_sources_of_layers_are_named(name: str, kernels: str) -> None:
    changes, error, message = WRONG_SOURCES[name]

    def wrong(sources: LayerSources) -> LayerSources:
        whole = replace(sources, shrunk=torch.full_like(sources.source_idx, SCALE_DEN))
        return replace(whole, **{field: change(getattr(whole, field)) for field, change in changes.items()})

    config = BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=1.0, layers=3))
    with use_backend(kernels), pytest.raises(error, match=message):
        BatchCopyPaste(config, source=Clumsy(mistake_before=wrong))(BATCH)


@pytest.mark.parametrize(("canvas", "error"), [("ab", TypeError), ((8,), TypeError), ((0, 0), ValueError)])
def test_a_wrong_canvas_of_the_sources_is_named(canvas: Any, error: type[Exception]) -> None:
    source = Clumsy(mistake_before=lambda s: replace(s, canvas_size=canvas))
    with pytest.raises(error, match=r"LayerSources\.canvas_size: expected"):
        BatchCopyPaste(CONFIG, source=source)(BATCH)


@pytest.mark.parametrize("kernels", CPU_BACKENDS)
def test_in_place_a_placement_may_lie_in_the_target(kernels: str) -> None:
    """The pastes overwrite the tensors that hold the placement itself."""

    def shared(sampled: Sampled) -> Sampled:
        source, placement, _ = sampled
        carried = source.instance_valid[:, None]
        tried, none = carried.sum((1, 2)), torch.zeros(3, dtype=torch.int64)
        rows = torch.arange(3)[:, None]
        valid = torch.ones_like(placement.layer_valid)
        placement = replace(placement, source_idx=rows, layer_valid=valid, carried=carried)
        return source, placement, PlacementCounts(tried, none, none, none)

    batch = BATCH.derived(sample_seeds=torch.arange(3))
    config = BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=1.0, max_attempts=8))
    with use_backend(kernels):
        expected = BatchCopyPaste(config, source=Clumsy(shared))(batch)
        own = batch.clone()
        sampled = Clumsy(shared)
        found = BatchCopyPaste(config, source=sampled, inplace=True)(own)
    assert_same(found, expected)


def test_sources_shrunk_to_nothing_do_not_end_compiled_code() -> None:
    def wrong(sources: LayerSources) -> LayerSources:
        return replace(sources, shrunk=torch.zeros_like(sources.source_idx))

    paste = BatchCopyPaste(CONFIG, source=Clumsy(mistake_before=wrong))
    batch = BATCH.derived(sample_seeds=torch.arange(3))
    with use_backend("native"):
        torch.compile(paste, backend="aot_eager", fullgraph=True)(batch)


def test_it_compiles_without_a_break() -> None:
    paste = BatchCopyPaste(CONFIG, source=Clumsy())
    batch = BATCH.derived(sample_seeds=torch.arange(3))
    compiled = torch.compile(paste, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(batch).images, paste(batch).images)


class Documented:
    """Source with the parameters of an early design document, which the module cannot call."""

    def sample(self, target: Any, valid_extent: Any, source_eligible: Any, generator: Any) -> Any: ...

    def rows(self, target: Any, *, candidates: Any, request: Any) -> Any: ...


class Defaulting:
    """Likewise, with a default, so that three arguments can be given: each would be taken for another one."""

    def sample(self, target: Any, valid_extent: Any, source_eligible: Any, generator: Any = None) -> Any: ...


class Variadic:
    def __init__(self) -> None:
        self.inner = Clumsy()

    def sample(self, *args: Any, seen: int = 0, **more: Any) -> Sampled:
        return self.inner.sample(*args, **more)


class TestSignatures:
    """A protocol compares names of methods only, so the module looks at their parameters when it is made."""

    @pytest.mark.parametrize(
        ("config", "called"),
        [
            (CONFIG, r"Documented\.sample\(target, eligible, request\), got sample\(target.*generator"),
            (BatchCopyPasteConfig(emit_classmix=True), r"Documented\.rows\(target, candidates, request\), got rows\("),
        ],
    )
    def test_other_parameters_are_refused(self, config: BatchCopyPasteConfig, called: str) -> None:
        with pytest.raises(TypeError, match=called + r".*attributes of the request"):
            BatchCopyPaste(config, source=Documented())

    def test_arguments_that_would_be_taken_for_others_are_refused(self) -> None:
        called = r"Defaulting\.sample\(target, eligible, request\), got sample\(target"
        with pytest.raises(TypeError, match=called + r".*generator, source_eligible, valid_extent would be another"):
            BatchCopyPaste(CONFIG, source=Defaulting())

    def test_what_can_be_called_is_taken(self) -> None:
        assert_same(BatchCopyPaste(CONFIG, source=Variadic())(BATCH), BatchCopyPaste(CONFIG, source=Clumsy())(BATCH))
