"""Random targets, sources and rules of draws, as small as they can be with every rule at work."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from cuda_cases import DEVICE
from torch import Generator, Tensor

from segpaste.augmentation.tables import TEMPERATURE_ONE, inverse_weights, log_table
from segpaste.engine.record_fields import flags_of
from segpaste.engine.regions import region_sums
from segpaste.engine.schema import SCALE_DEN, DrawRules, DrawTables, LayerRows, Pick, Sources, Targets

HEIGHT, WIDTH, NUM_CLASSES = 24, 32, 4

PLAIN = DrawRules(**dict.fromkeys(DrawRules._fields, 0))._replace(
    num_layers=2,
    low_scale=30000,
    high_scale=90000,
    scale_den=SCALE_DEN,
    flip_threshold=1 << 31,
    max_attempts=1,
    patch=1,
    seen_num=1,
    seen_den=4,
    region_num=3,
    region_den=4,
    cover_num=2,
    cover_den=1,
    candidate_num=1,
    candidate_den=1,
)
"""Rules that limit nothing."""

_PATCHES: dict[str, Any] = {"one_each": 1, "whole_patches": 1, "patch": 4}
_EVERYTHING: dict[str, Any] = {
    "one_each": 1,
    "max_attempts": 3,
    "clips": 1,
    "fits_scale": 1,
    "needs_objects": 1,
    "cover_num": 9,
    "cover_den": 10,
    "shrunk": True,
    "regions": 2,
    "region_num": 1,
    "counts_available": 1,
    "temperature": TEMPERATURE_ONE // 2,
    "pick": "own",
}
RULES: dict[str, dict[str, Any]] = {
    "nothing more": {},
    "image": {"max_attempts": 3},
    "one each": {"one_each": 1, "num_layers": 4},
    "one each in proportion": {"one_each": 1, "num_layers": 4, "temperature": TEMPERATURE_ONE},
    "temperature": {"temperature": TEMPERATURE_ONE, "limits": (1, 2)},
    "clips": {"clips": 1, "max_attempts": 2},
    "keeps place": {"keeps_place": 1},
    "flips vertically": {"vflip_threshold": 1 << 31},
    "turns": {"turn_threshold": 3 << 30},
    "turns in place": {"turn_threshold": 3 << 30, "keeps_place": 1, "clips": 1},
    "turns on patches": {"turn_threshold": 3 << 30, **_PATCHES},
    "hides cuts": {"keeps_place": 1, "hides_cuts": 1, "clips": 1},
    "fits scale": {"fits_scale": 1, "high_scale": 200000},
    "grid": {"on_grid": 1, "low_scale": 1, "high_scale": 6, "scale_den": 16, "patch": 4, "max_attempts": 2},
    "whole patches": _PATCHES,
    "sizes": {"one_each": 1, "sizes": True},
    "one region": {"regions": 1, "max_attempts": 2},
    "regions": {"regions": 2, "one_each": 1},
    "cover": {"cover_num": 3, "cover_den": 10, "max_attempts": 2},
    "candidates": {"candidate_den": 2, "max_attempts": 2},
    "shrunk": {"shrunk": True},
    "available": {"counts_available": 1, "limits": (1, 40)},
    "same rows": {"pick": "same"},
    "own rows": {"pick": "own"},
    "given rows": {"pick": "given", "one_each": 1},
    "equal seeds": {"equal_seeds": True},
    "everything": _EVERYTHING,
    "everything on patches": {**_EVERYTHING, **_PATCHES, "candidate_den": 2, "pick": "given"},
}
RULES |= {flag: {flag: 1} for flag in flags_of(DrawRules) if not any(flag in rules for rules in RULES.values())}
"""By name: fields of `DrawRules`, and the properties of targets, sources and tables that `draw_case` names."""


class Case(NamedTuple):
    """Arguments of ``draw``."""

    targets: Targets
    sources: Sources
    tables: DrawTables
    rules: DrawRules
    pick: Pick | LayerRows


def integers(generator: Generator, low: int, high: int, *shape: int) -> Tensor:
    return torch.randint(low, high, shape, generator=generator).to(DEVICE)


def draw_case(name: str, seed: int, **sizes: int) -> tuple[Case, Case]:
    """A case with the named rules, and the same without them."""
    options = {**RULES[name], **{k: v for k, v in sizes.items() if k in PLAIN._fields}}
    sizes = {
        "batch_size": 2,
        "num_slots": 4,
        "num_targets": 3,
        **{k: v for k, v in sizes.items() if k not in PLAIN._fields},
    }
    plain = {"num_layers": options["num_layers"]} if "num_layers" in options else {}
    return _case(seed, options, **sizes), _case(seed, plain, **sizes)


def _case(seed: int, options: dict[str, Any], batch_size: int, num_slots: int, num_targets: int) -> Case:
    generator = torch.Generator().manual_seed(seed)
    rules = PLAIN._replace(**{name: value for name, value in options.items() if name in PLAIN._fields})
    pick, b, layers = options.get("pick", "others"), batch_size, rules.num_layers
    num_rows = {"own": b * (layers + 1), "given": b * layers}.get(pick, b)
    seeds = integers(generator, -(1 << 62), 1 << 62, b)
    rows = LayerRows(integers(generator, 0, 2, b, layers), integers(generator, 0, 5, b, layers) > 0)
    targets = Targets(
        seeds=seeds * 0 + 5 if options.get("equal_seeds") else seeds,
        occupied=_boxes(generator, b, num_targets),
        num_free=integers(generator, 2, 5, b),
        extent=_extent(generator, b),
        regions=_regions(generator, b, options.get("regions", 0)),
    )
    sources = Sources(
        eligible=integers(generator, 0, 4, num_rows, num_slots) > 0,
        boxes=_boxes(generator, num_rows, num_slots),
        labels=integers(generator, -1, NUM_CLASSES + 1, num_rows, num_slots),
        extent=_extent(generator, num_rows),
        shrunk=integers(generator, 0, 2 * SCALE_DEN, num_rows) if options.get("shrunk") else None,
    )
    return Case(targets, sources, draw_tables(options), rules, rows if pick == "given" else pick)


def draw_tables(options: dict[str, Any]) -> DrawTables:
    temperature = options.get("temperature", 0)
    sizes = [[0, 0], [90, 300], [40, 41], [150, 150]] if options.get("sizes") else [[0, 0]]
    tables = DrawTables(
        limits=torch.tensor([(1 << 32) - 1, *options.get("limits", (1, 6)), temperature]),
        size_table=torch.tensor(sizes),
        inverse_weights=inverse_weights(temperature),
        log_table=log_table(),
        region_table=torch.tensor([0, 1, 2, 0, 1]),
    )
    return DrawTables(*(table.to(DEVICE) for table in tables))


def _boxes(generator: Generator, num_rows: int, num_slots: int) -> Tensor:
    """Boxes on the canvas and a little beyond; one in six is empty."""
    x = integers(generator, -2, WIDTH, num_rows, num_slots, 2).sort(-1).values
    y = integers(generator, -2, HEIGHT, num_rows, num_slots, 2).sort(-1).values
    boxes = torch.stack([x[..., 0], y[..., 0], x[..., 1], y[..., 1]], -1)
    return boxes * (integers(generator, 0, 6, num_rows, num_slots, 1) > 0)


def _extent(generator: Generator, num_rows: int) -> Tensor:
    sides = [integers(generator, size // 2, size + 1, num_rows) for size in (WIDTH, HEIGHT)]
    return torch.stack(sides, -1)


def _regions(generator: Generator, b: int, num: int) -> Tensor | None:
    mask = integers(generator, 0, 4, b, HEIGHT, WIDTH) > 0
    left = torch.arange(WIDTH, device=DEVICE) < WIDTH // 2
    semantic = left.long().expand(b, HEIGHT, WIDTH)
    return None if num == 0 else region_sums(mask if num > 1 else None, semantic, [(0,), (1,)][:num])
