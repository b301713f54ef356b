"""The public names and the version: what users rely on. Names are only ever added."""

from __future__ import annotations

import dataclasses
import importlib.metadata

import pytest

import segpaste

PUBLIC = {
    "BankSampler",
    "BankSource",
    "BatchCopyPaste",
    "BatchCopyPasteConfig",
    "BatchedDenseSample",
    "CameraIntrinsics",
    "CocoDetectionV2",
    "CrowdMask",
    "DenseSample",
    "ExhaustiveNxMSampler",
    "InstanceBank",
    "InstanceMask",
    "IntraBatchSource",
    "KeypointSchema",
    "LMDBBank",
    "MemmapBank",
    "Modality",
    "NxMSampler",
    "PaddedBatchedDenseSample",
    "PaddingMask",
    "PanopticMap",
    "PanopticSchema",
    "RandomNxMSampler",
    "SemanticMap",
    "SourceStrategy",
    "StagedCrops",
    "WebDatasetBank",
    "__version__",
    "create_bank_dataloader",
    "create_coco_dataloader",
    "derive_seed",
    "get_preset",
    "list_presets",
    "open_bank",
    "register_preset",
    "stage_bank_batch",
}


def own_docstring(item: object) -> str:
    """Return the docstring written for this very item; the signature that a dataclass makes up is none."""
    doc = item.__doc__ or ""
    return "" if doc.startswith(f"{getattr(item, '__name__', '')}(") else doc.strip()


class TestNames:
    def test_names_are_pinned(self) -> None:
        assert set(segpaste.__all__) == PUBLIC

    def test_no_name_stands_twice(self) -> None:
        assert len(segpaste.__all__) == len(set(segpaste.__all__))

    @pytest.mark.parametrize("name", sorted(PUBLIC))
    def test_name_resolves(self, name: str) -> None:
        assert getattr(segpaste, name) is not None
        assert name in dir(segpaste)

    @pytest.mark.parametrize("name", sorted(PUBLIC - {"__version__"}))
    def test_name_has_a_docstring_of_its_own(self, name: str) -> None:
        assert own_docstring(getattr(segpaste, name))

    def test_unknown_name_is_an_attribute_error(self) -> None:
        assert not hasattr(segpaste, "no_such_name")

    def test_a_generated_or_inherited_docstring_does_not_count(self) -> None:
        made_up = dataclasses.make_dataclass("MadeUp", ["x"])
        assert made_up.__doc__
        assert own_docstring(made_up) == ""
        assert own_docstring(type("Child", (dict,), {})) == ""
        assert own_docstring(own_docstring)


class TestVersion:
    def test_version_is_the_installed_one(self) -> None:
        assert segpaste.__version__ == importlib.metadata.version("segpaste")
