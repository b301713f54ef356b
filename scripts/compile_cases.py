"""Cases of the compile gate, `compile_explain`: modules, and the small batches of scenes they are called with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, combinations
from typing import Any, NamedTuple, get_args

import torch
from torch import Tensor

from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig, PanopticConfig, SourceConfig
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.presets import get_preset, list_presets
from segpaste.types import BatchedDenseSample, Modality, PaddedBatchedDenseSample, StagedCrops

OPTIONAL = (Modality.INSTANCE, Modality.PANOPTIC, Modality.SEMANTIC, Modality.DEPTH, Modality.NORMALS)
SCENES = SceneConfig(height=30, width=26, num_objects_range=(3, 4), num_classes=3, rays_per_px=1)


class Pairwise(NamedTuple):
    """One combination of options.

    Attributes:
        modalities: the name of a subset.
        bank: paste crops of a bank instead of objects of the batch.
        inplace: paste into the batch's own tensors.
        classmix: paste classes.
        hidden: limit what may be hidden of an object.
        harmonize: fit pasted colours to the image.
        patches: align pastes to patches.
        grouping: give each object a layer of its own.
    """

    modalities: str
    bank: bool
    inplace: bool
    classmix: bool
    hidden: bool
    harmonize: bool
    patches: bool
    grouping: bool

    @property
    def config(self) -> dict[str, Any]:
        """The options as keywords of `BatchCopyPasteConfig`."""
        placement: dict[str, Any] = {"pad_to_multiple": 2, "patch_aligned_paste": True} if self.patches else {}
        if self.grouping:
            placement["grouping"] = "instance"
        return {
            "source": _source("bank" if self.bank else "intra_batch"),
            "emit_classmix": self.classmix,
            "max_hidden_frac": 0.5 if self.hidden else 1.0,
            "harmonize": {"prob": 1.0 if self.harmonize else 0.0},
            "placement": placement,
        }


_EVERYTHING, _MAPS = "instance+panoptic+semantic+depth+normals", "instance+semantic+depth"
_ROWS = (
    ("instance", 0, 0, 0, 0, 0, 0, 1),
    (_EVERYTHING, 1, 1, 0, 1, 1, 1, 0),
    (_MAPS, 0, 1, 1, 0, 1, 0, 0),
    (_MAPS, 1, 0, 0, 1, 0, 1, 1),
    ("instance", 0, 1, 0, 1, 0, 1, 0),
    (_EVERYTHING, 0, 0, 1, 1, 0, 0, 0),
    ("instance", 1, 0, 0, 0, 1, 0, 1),
    (_EVERYTHING, 0, 1, 0, 0, 0, 1, 1),
)
PAIRWISE = {f"pairwise:{i}": Pairwise(name, *map(bool, rest)) for i, (name, *rest) in enumerate(_ROWS, 1)}
"""Any two options that a config may combine, on and off, meet in one of these."""


class Case(NamedTuple):
    """A module, what it is called with, and how it is compiled.

    Attributes:
        module: what must compile.
        batch: with free slots and seeds.
        staged: crops of a bank, for a module that pastes them.
        backend: of `torch.compile`.
    """

    module: BatchCopyPaste
    batch: PaddedBatchedDenseSample
    staged: StagedCrops | None = None
    backend: str = "aot_eager"

    @property
    def num_graphs(self) -> int:
        """Number of graphs: none where a batch comes back without any operation on its tensors."""
        has_work = {Modality.INSTANCE, Modality.DEPTH} & self.batch.modalities or self.module.config.emit_classmix
        return 1 if has_work or self.staged is not None else 0

    def of_other_seeds(self) -> Case:
        """The same case, in which other objects are drawn."""
        seeds = self.batch.sample_seeds
        assert seeds is not None
        return self._replace(batch=self.batch.derived(sample_seeds=seeds + 100))

    def call(self, step: Callable[..., Any], **options: Any) -> Any:
        """Call a form of the module; it may paste into a copy of the batch."""
        batch = self.batch.clone() if self.module.inplace else self.batch
        return step(batch, **options) if self.staged is None else step(batch, staged=self.staged, **options)


def modality_subsets() -> dict[str, frozenset[Modality]]:
    """Every legal set of modalities beside the image, by name: panoptic comes with instance and semantic."""
    sets = map(frozenset, chain.from_iterable(combinations(OPTIONAL, n) for n in range(len(OPTIONAL) + 1)))
    legal = (s for s in sets if Modality.PANOPTIC not in s or {Modality.INSTANCE, Modality.SEMANTIC} <= s)
    return {name_of(s): s for s in legal}


def name_of(modalities: Iterable[Modality]) -> str:
    """For example ``instance+depth``; ``image`` where there is nothing else."""
    wanted = set(modalities)
    return "+".join(m.value for m in OPTIONAL if m in wanted) or "image"


def source_kinds() -> tuple[str, ...]:
    """Every ``source.kind``."""
    return get_args(SourceConfig.model_fields["kind"].annotation)


def make_case(modalities: frozenset[Modality], *, inplace: bool = False, **options: Any) -> Case:
    """A module with these options, and a batch of three small scenes of these modalities.

    Where it has all of them it also has keypoints and crowds.
    """
    has_all = modalities >= set(Modality) - {Modality.IMAGE}
    scenes = SceneDataset(3, SCENES, seed=1, modalities=modalities, keypoints=has_all)
    batch = BatchedDenseSample.from_samples([scenes[i] for i in range(len(scenes))])
    seeds, keys = torch.arange(1, len(scenes) + 1), torch.arange(5 * len(scenes)).view(-1, 5)
    padded = batch.to_padded(8, overflow="largest", sample_seeds=seeds, sample_keys=keys)
    if has_all:
        crowd = torch.zeros(len(scenes), 1, *padded.canvas_size, dtype=torch.bool)
        crowd[..., ::3, :] = True
        padded = padded.derived(crowd_mask=crowd)
    from_bank = options.get("source", {}).get("kind") == "bank"
    needs_classes = Modality.PANOPTIC in modalities or (from_bank and Modality.SEMANTIC in modalities)
    panoptic = PanopticConfig.model_validate({"taxonomy": scenes.schema}) if needs_classes else None
    placement = {"paste_prob": 1.0, **options.get("placement", {})}
    config = BatchCopyPasteConfig.model_validate({**options, "panoptic": panoptic, "placement": placement})
    return Case(BatchCopyPaste(config, inplace=inplace), padded, make_staged(modalities) if from_bank else None)


def make_staged(modalities: frozenset[Modality]) -> StagedCrops:
    """Two crops for each of three targets, whole scenes around an object each, with what the modalities ask for."""
    asked = modalities & {Modality.DEPTH, Modality.NORMALS} | {Modality.INSTANCE}
    batch = make_case(frozenset(asked)).batch
    num_targets, num_crops = batch.batch_size, 2
    assert batch.instance_masks is not None

    def per_crop(plane: Tensor | None) -> Tensor | None:
        return None if plane is None else plane[:, None].expand(-1, num_crops, *plane.shape[1:]).contiguous()

    images = per_crop(batch.images)
    assert images is not None
    return StagedCrops(
        images=images,
        alphas=batch.instance_masks[:, :num_crops, None].contiguous(),
        class_ids=batch.labels[:, :num_crops].contiguous(),
        boxes=batch.boxes[:, :num_crops].to(torch.int64),
        crop_idx=torch.arange(num_targets * num_crops).view(num_targets, num_crops),
        scales=torch.ones(num_targets, num_crops),
        depth=per_crop(batch.depth),
        depth_valid=per_crop(batch.depth_valid),
        normals=per_crop(batch.normals),
        camera_intrinsics=per_crop(batch.camera_intrinsics),
        metric_depth=batch.metric_depth,
    )


def _source(kind: str) -> dict[str, Any]:
    return {"kind": kind, "crops_per_target": 2} if kind == "bank" else {"kind": kind}


def case_names() -> dict[str, Callable[[], Case]]:
    """Every case by name, and what makes it; a subset alone is one of the default source.

    ``same_image``, which differs from the default in the rows that are read, is compiled with all modalities only.
    """
    makers: dict[str, Callable[[], Case]] = {}
    for kind in source_kinds():
        for subset, modalities in modality_subsets().items():
            if kind == "same_image" and modalities != frozenset(OPTIONAL):
                continue
            name = subset if kind == SourceConfig().kind else f"{kind}:{subset}"
            makers[name] = lambda modalities=modalities, kind=kind: make_case(modalities, source=_source(kind))
    for preset in list_presets():
        makers[f"preset:{preset}"] = lambda preset=preset: _preset_case(preset)
    for name, options in PAIRWISE.items():
        makers[name] = lambda options=options: _pairwise_case(options)
    return makers


WIDE = {"paste_prob": 1.0, "max_cover_frac": 1.0}


def _preset_case(name: str) -> Case:
    """A preset, on all modalities."""
    case = make_case(frozenset(OPTIONAL))
    if get_preset(name).config.source.kind == "bank":
        case = make_case(frozenset(OPTIONAL), source=_source("bank"))
        config = get_preset(name).config_for(SceneDataset(1, SCENES).schema, source=_source("bank"))
        return case._replace(module=BatchCopyPaste(config))
    config = get_preset(name).config_for(SceneDataset(1, SCENES).schema)
    if config.placement.max_cover_frac is not None:  # else nothing is pasted into three scenes
        config = get_preset(name).config_for(SceneDataset(1, SCENES).schema, placement=WIDE)
    return case._replace(module=BatchCopyPaste(config))


def _pairwise_case(options: Pairwise) -> Case:
    modalities = modality_subsets()[options.modalities]
    return make_case(modalities, inplace=options.inplace, **options.config)._replace(backend="inductor")
