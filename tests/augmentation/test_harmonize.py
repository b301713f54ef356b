"""`BatchCopyPaste` with ``harmonize``: only the image changes, where pastes are seen, the same wherever it runs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from samples import CPU_BACKENDS, SCHEMA, assert_backends_agree, assert_same, make_batch, paste
from segpaste import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.augmentation.harmonize import MODES, Harmonizer
from segpaste.engine import use_backend
from segpaste.types import Modality

ALL_MODES = pytest.mark.parametrize("mode", sorted(MODES))
DTYPES = pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float16, torch.bfloat16], ids=str)

framed_batch = partial(make_batch, batch_size=4, size=(33, 29), max_instances=8, padding=(3, 2), metric_depth=True)


def make_config(mode: str = "reinhard", prob: float = 1.0, **values: Any) -> BatchCopyPasteConfig:
    return BatchCopyPasteConfig.model_validate(
        {
            "placement": {"paste_prob": 1.0, "scale_range": (0.5, 1.5), "layers": 2},
            "panoptic": {"taxonomy": SCHEMA, "tau_stuff_px": 8},
            "harmonize": {"mode": mode, "prob": prob, "surround_px": 4, **values},
        }
    )


@pytest.mark.usefixtures("writing")
class TestOnlyTheImageChanges:
    @ALL_MODES
    @DTYPES
    @pytest.mark.parametrize("feather_px", [0, 2])
    def test_where_pastes_are_seen(self, mode: str, dtype: torch.dtype, feather_px: int) -> None:
        num_changed = 0
        for seed in range(3):
            batch = framed_batch(seed=seed, image_dtype=dtype)
            kept = batch.clone()
            (hard, hard_report), (out, report) = (
                paste(batch, make_config(mode, **v)) for v in ({"prob": 0.0}, {"feather_px": feather_px})
            )
            assert_same(batch, kept)
            assert_backends_agree((out.derived(images=hard.images), report), (hard, hard_report))
            seen = (report.visible_layer >= 0)[:, None].expand_as(out.images)
            assert torch.equal(out.images[~seen], batch.images[~seen])
            harmonizer = Harmonizer(make_config(mode, feather_px=feather_px).harmonize)
            expected = harmonizer(hard.images, batch.images, seen[:, 0], batch.sample_seeds, batch.padding_mask)
            assert torch.equal(out.images, expected)
            num_changed += int((out.images != hard.images).sum())
        assert num_changed > 100

    def test_off_it_does_not_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: Any) -> None:
            raise AssertionError("harmonised")

        monkeypatch.setattr("segpaste.augmentation.stages.Harmonizer.__call__", refuse)
        batch = framed_batch()
        assert_same(
            paste(batch, make_config(prob=0.0))[0], paste(batch, BatchCopyPasteConfig(**without(make_config())))[0]
        )
        with pytest.raises(AssertionError, match="harmonised"):
            paste(batch, make_config(prob=0.0, feather_px=1))


def without(config: BatchCopyPasteConfig) -> dict[str, Any]:
    """Return the values of a config except ``harmonize``."""
    return {name: getattr(config, name) for name in type(config).model_fields if name != "harmonize"}


class TestForward:
    @ALL_MODES
    @DTYPES
    def test_kernels_agree(self, mode: str, dtype: torch.dtype) -> None:
        batch = framed_batch(image_dtype=dtype)
        outs = []
        for name in CPU_BACKENDS:
            with use_backend(name):
                outs.append(paste(batch, make_config(mode, feather_px=1)))
        assert_backends_agree(*outs)

    @ALL_MODES
    @DTYPES
    @pytest.mark.usefixtures("writing")
    @pytest.mark.xdist_group("harmonize-in-place")
    def test_in_place(self, mode: str, dtype: torch.dtype) -> None:
        batch = framed_batch(image_dtype=dtype)
        channels_last = dtype == torch.float32
        if channels_last:
            batch = replace(batch, images=batch.images.contiguous(memory_format=torch.channels_last))
        own = batch.clone()
        expected, _ = paste(batch, make_config(mode, feather_px=1))
        out = BatchCopyPaste(make_config(mode, feather_px=1), inplace=True)(own)
        assert_same(out, expected)
        assert out.images is own.images
        assert out.images.is_contiguous(memory_format=torch.channels_last) == channels_last

    @pytest.mark.usefixtures("writing")
    def test_a_report_changes_nothing(self) -> None:
        batch, module = framed_batch(), BatchCopyPaste(make_config("poisson"))
        assert_same(module(batch), module(batch, return_report=True)[0])

    @pytest.mark.usefixtures("writing")
    @pytest.mark.parametrize("inplace", [False, True])
    @pytest.mark.parametrize(
        "options",
        [
            {"batch_size": 0},
            {"batch_size": 1},
            {"modalities": {Modality.DEPTH}},
            {"num_instances": 0, "max_instances": 0},
        ],
    )
    @pytest.mark.filterwarnings("ignore:BatchCopyPaste could paste nothing")
    def test_nothing_to_paste(self, options: dict[str, Any], inplace: bool) -> None:
        batch = framed_batch(camera=True, **options)
        images = batch.images.clone()
        for mode in MODES:
            out = BatchCopyPaste(make_config(mode, feather_px=1), inplace=inplace)(batch)
            assert torch.equal(out.images, images)

    def test_nothing_to_paste_warns_once(self) -> None:
        module = BatchCopyPaste(make_config())
        with pytest.warns(UserWarning, match="could paste nothing"):
            module(framed_batch(batch_size=1))

    @pytest.mark.usefixtures("writing")
    def test_the_seeds_of_a_generator_are_used(self) -> None:
        """The seeds that come back give the same batch again."""
        module, batch = BatchCopyPaste(make_config(prob=0.5)), framed_batch(batch_size=8)
        out = module(batch, torch.Generator().manual_seed(3))
        assert_same(module(replace(batch, sample_seeds=out.sample_seeds)), out)


WRITINGS_AND_MODES = pytest.mark.parametrize(
    ("writing", "mode"),
    [*(("native", mode) for mode in sorted(MODES)), ("reference", "multiband")],
    indirect=["writing"],
)
"""To harmonise is one operator, whatever pastes before it: once with the reference, which takes long to compile."""


@pytest.mark.usefixtures("writing")
class TestCompiled:
    @WRITINGS_AND_MODES
    @pytest.mark.parametrize("inplace", [False, True])
    def test_one_graph_that_equals_eager(self, mode: str, inplace: bool) -> None:
        """They are equal bit for bit, floats too: in the graph it is one operator."""
        module = BatchCopyPaste(make_config(mode, prob=0.7, feather_px=1), inplace=inplace)
        compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
        for seed in range(3):
            for dtype in (torch.uint8, torch.float32):
                batch = framed_batch(seed=seed, image_dtype=dtype)
                assert_same(compiled(batch.clone()), module(batch.clone()))
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2

    @pytest.mark.slow
    @WRITINGS_AND_MODES
    def test_inductor(self, mode: str) -> None:
        module = BatchCopyPaste(make_config(mode, feather_px=1))
        compiled = torch.compile(module, fullgraph=True)
        for channels_last in (False, True):
            batch = framed_batch(image_dtype=torch.uint8)
            order = torch.channels_last if channels_last else torch.contiguous_format
            batch = replace(batch, images=batch.images.contiguous(memory_format=order))
            actual, expected = compiled(batch), module(batch)
            assert torch.equal(actual.images, expected.images)
            assert actual.images.is_contiguous(memory_format=order)

    def test_the_operator_keeps_its_word(self) -> None:
        """Shapes, strides and dtypes as announced, no input written or returned."""
        batch = framed_batch()
        for order in (torch.contiguous_format, torch.channels_last):
            images = batch.images.contiguous(memory_format=order)
            visible = torch.zeros(4, 33, 29, dtype=torch.bool)
            visible[:, 5:20, :9] = True
            for padding in (None, batch.padding_mask):
                arguments = images, images.flip(0), visible, batch.sample_seeds, padding
                numbers = [1.0, 5, 4, 4.0, 8, 1, 0.0]
                for values in ((numbers, None), ([], torch.tensor(numbers, dtype=torch.float64))):
                    torch.library.opcheck(torch.ops.segpaste.harmonize.default, (*arguments, "multiband", *values))
