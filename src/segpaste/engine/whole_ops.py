"""A whole paste, and the draws before it, where a backend does them at once: the CPU's.

Outside of compiled code they are called as they are; inside they are custom operators.
"""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste.engine.operands import (
    Planes,
    empty_plane,
)
from segpaste.engine.whole_operands import (
    ClassKinds,
    DrawRanges,
    Draws,
    DrawTables,
    LayerMaps,
    Outcome,
    Rows,
    Rules,
    Survey,
)


def paste(
    target: Planes,
    source: Planes,
    target_rows: Rows,
    source_rows: Rows,
    maps: LayerMaps,
    kinds: ClassKinds,
    rules: Rules,
    *,
    with_layer: bool,
    in_place: bool,
) -> Outcome:
    """See `segpaste.engine.native.binding.paste`; compiled code does not write in place."""
    if not torch.compiler.is_compiling():
        from segpaste.engine.native import binding

        return binding.paste(target, source, target_rows, source_rows, maps, kinds, rules, with_layer, in_place)
    written = _paste(
        list(target),
        list(source),
        list(target_rows),
        list(source_rows),
        list(maps),
        list(kinds),
        list(rules),
        with_layer,
    )
    *small, layer = written[-9:]
    planes = iter(written[:-9])
    of_target = target._replace(padding_mask=None)
    return Outcome(  # type: ignore[call-arg]
        Planes(*(None if plane is None else next(planes) for plane in of_target)),  # type: ignore[arg-type]
        Rows(*small[:4]),
        *small[4:],
        layer,
    )


def survey(rows: Rows, padding_mask: Tensor | None, canvas_size: tuple[int, int], is_thing: Tensor | None) -> Survey:
    """See `segpaste.engine.native.binding.survey`; not for compiled code, which traces what it stands for."""
    from segpaste.engine.native import binding

    return binding.survey(rows, padding_mask, canvas_size, is_thing)


def draw(
    seeds: Tensor, found: Survey, tables: DrawTables, num_layers: int, ranges: DrawRanges
) -> tuple[Tensor, Tensor, Draws]:
    """See `segpaste.engine.native.binding.draw`."""
    if not torch.compiler.is_compiling():
        from segpaste.engine.native import binding

        return binding.draw(seeds, found, tables, num_layers, ranges)
    numbers = [int(number) for number in ranges]
    source_idx, layer_valid, *draws = _draw(seeds, list(found), list(tables), num_layers, numbers)
    return source_idx, layer_valid, Draws(*draws)


@torch.library.custom_op("segpaste::paste", mutates_args=())
def _paste(
    target: list[Tensor | None],
    source: list[Tensor | None],
    target_rows: list[Tensor],
    source_rows: list[Tensor],
    maps: list[Tensor | None],
    kinds: list[Tensor | None],
    rules: list[int],
    with_layer: bool,
) -> list[Tensor]:
    from segpaste.engine.native import binding

    planes, rows, *rest = binding.paste(
        Planes(*target),  # type: ignore[arg-type]
        Planes(*source),  # type: ignore[arg-type]
        Rows(*target_rows),
        Rows(*source_rows),
        LayerMaps(*maps),  # type: ignore[arg-type]
        ClassKinds(*kinds),
        Rules.of(rules),
        with_layer,
        in_place=False,
    )
    return [*(plane for plane in planes if plane is not None), *rows, *rest]


@_paste.register_fake
def _(
    target: list[Tensor | None],
    source: list[Tensor | None],
    target_rows: list[Tensor],
    source_rows: list[Tensor],
    maps: list[Tensor | None],
    kinds: list[Tensor | None],
    rules: list[int],
    with_layer: bool,
) -> list[Tensor]:
    planes = Planes(*target)._replace(padding_mask=None)._asdict()  # type: ignore[arg-type]
    written = [empty_plane(name, plane) for name, plane in planes.items() if plane is not None]
    rows = [row.new_empty(row.shape) for row in target_rows]
    images, labels, carried = planes["images"], target_rows[1], LayerMaps(*maps).carried  # type: ignore[arg-type]
    layer = images.new_empty((len(images) if with_layer else 0, *images.shape[2:]), dtype=torch.int16)
    slots = [labels.new_empty(labels.shape) for _ in range(2)]
    return [*written, *rows, carried.new_empty(carried.shape), labels.new_empty(len(images), 3), *slots, layer]


@torch.library.custom_op("segpaste::draw", mutates_args=())
def _draw(seeds: Tensor, found: list[Tensor], tables: list[Tensor], num_layers: int, ranges: list[int]) -> list[Tensor]:
    from segpaste.engine.native import binding

    given = Survey(*found), DrawTables(*tables), num_layers, DrawRanges.of(ranges)
    source_idx, layer_valid, draws = binding.draw(seeds, *given)
    return [source_idx, layer_valid, *draws]


@_draw.register_fake
def _(seeds: Tensor, found: list[Tensor], tables: list[Tensor], num_layers: int, ranges: list[int]) -> list[Tensor]:
    b, k = found[0].shape

    def integers(*shape: int) -> Tensor:
        return seeds.new_empty(shape)

    def flags(*shape: int) -> Tensor:
        return seeds.new_empty(shape, dtype=torch.bool)

    pairs = [integers(b, num_layers, 2) for _ in range(3)]
    placed = [integers(b, num_layers), flags(b, num_layers), *pairs, flags(b, num_layers), flags(b, num_layers, k)]
    return [*placed, *(integers(b) for _ in range(4))]
