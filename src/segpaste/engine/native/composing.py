"""The composition of a paste by the native library, alone or as part of a step."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from operator import attrgetter
from typing import Final, NamedTuple

import torch
from torch import Tensor

from segpaste.engine.native import jobs, library
from segpaste.engine.native.library import addresses, workspaces
from segpaste.engine.planes import (
    PLANES,
    ROWS,
    WRITTEN,
    can_be_written,
    empty_plane,
    present_planes,
    share_memory,
    write_back,
)
from segpaste.engine.record_fields import empty
from segpaste.engine.schema import Classes, Outcome, Placement, Scene
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.check import MAX_FED_BACK_ID, not_none

CPU: Final = torch.device("cpu")

_KINDS: Final = {torch.uint8: 0, torch.float32: 1, torch.float16: 2, torch.bfloat16: 3}
_ERRORS: Final = {
    1: "no memory",
    2: "expected source_idx to be rows of the source batch; mend the strategy",
    3: (
        "expected scale_num and scale_den from 1 to 2**40 in every layer (less on canvases of more than 2**20 lines or "
        "columns); mend the source strategy"
    ),
    4: (
        "expected at most as many carried slots as the target has free ones (num_free of the request); mend the source "
        "strategy"
    ),
    5: "expected translations of at most 2**60 pixels; mend the source strategy",
    6: "expected at most 32767 layers, and beside a panoptic map as many slots in the source; mend the source strategy",
}


def compose(scene: Scene, placement: Placement, *, with_layer: bool, in_place: bool) -> Outcome:
    """See `segpaste.engine.reference.stages.compose`.

    Raises:
        ValueError: a layer's source row, scale or slots are out of range.
        MemoryError: there is not enough memory.
    """
    target, source = scene.target, scene.source
    if in_place and not can_be_written(target):
        found = compose(scene, placement, with_layer=with_layer, in_place=False)
        return found._replace(batch=write_back(target, found.batch))
    _, num_layers, k_s = placement.carried.shape
    if k_s != source.max_instances + (scene.mixture is not None):
        raise ValueError(f"expected a placement of {source.max_instances} slots, the source's, got {k_s}")
    surfaces = Surfaces(scene, in_place=in_place)
    shapes = target.images.shape, target.labels.shape, source.images.shape, source.labels.shape
    sizes = composed_sizes(*shapes, num_layers, with_layer) | {"K_s": k_s}
    outcome = empty(Outcome, CPU, sizes, batch=surfaces.batch)
    numbers, shared = composed_numbers(surfaces.kind(scene)), array("q", bytes(16 * sizes["B"]))
    readers, new = shared.buffer_info()[0], empty(jobs.NewRows, CPU, sizes) if in_place else instances(surfaces.batch)
    error = jobs.COMPOSE.run(
        workspaces(numbers["num_threads"]).buffer_info()[0],
        library.parallel(),
        **numbers,
        sizes=sizes,
        readers=readers,
        is_taken=readers + 8 * sizes["B"],
        placement=placement,
        rules=scene.rules,
        classes=Classes(scene.classes.is_thing, scene.watched, scene.rank),
        mixture=scene.mixture,
        cameras=surfaces.cameras,
        outcome=outcome,
        **{**surfaces.words(), "out_rows": addresses(new)},
    )
    check(error)
    surfaces.tell_autograd()
    return outcome


def composed_sizes(
    images: Sequence[int],
    labels: Sequence[int],
    source_images: Sequence[int],
    source_labels: Sequence[int],
    num_layers: int,
    with_layer: bool,
) -> dict[str, int]:
    """Return the values of the symbols in the shapes of a composition, from shapes of target and source."""
    (b, channels, height, width), (s, k_s) = images, source_labels
    sizes = {"B": b, "C": channels, "H": height, "W": width, "K": labels[1], "L": num_layers, "S": s, "K_s": k_s}
    return sizes | {"H_s": source_images[2], "W_s": source_images[3], "V": b if with_layer else 0}


class Kind(NamedTuple):
    """Kind of a composition: all that decides its numbers which are neither sizes nor addresses."""

    dtype: torch.dtype
    is_panoptic: bool
    needs_owner: bool
    has_fragment: bool
    in_place: bool
    is_own: bool
    shares_memory: bool
    num_threads: int


def composed_numbers(kind: Kind) -> dict[str, int]:
    """Return these numbers by the names of the job."""
    return {
        "pixel_kind": _KINDS[kind.dtype],
        "largest_id": MAX_FED_BACK_ID,
        "exclusive": kind.is_panoptic,
        "with_owner": kind.needs_owner,
        "has_fragment": kind.has_fragment,
        "in_place": kind.in_place,
        "reads_itself": kind.is_own,
        "shares_memory": kind.shares_memory,
        "num_threads": kind.num_threads,
    }


class Surfaces:
    """Tensors that a composition reads and writes, in an order that the library reads, or copied to one.

    Args:
        scene: the scene.
        in_place: whether the target, which `can_be_written`, is the output.

    Attributes:
        batch: the output.
        rows: instances of the target, in the order of `ROWS`.
        cameras: intrinsics of metric depth.
    """

    def __init__(self, scene: Scene, *, in_place: bool) -> None:
        target, source = scene.target, scene.source
        self.batch, self._in_place = target, in_place
        self._planes, self.rows = lined_planes(target), instances(target)
        self._origin, self._origin_rows = self._planes, self.rows
        if source is not target:
            self._origin = lined_planes(source)
            self._origin_rows = [source.boxes.contiguous(), source.labels.contiguous()]
        self.cameras = None
        if target.metric_depth and target.depth is not None and source.depth is not None:
            cameras = not_none(target.camera_intrinsics), not_none(source.camera_intrinsics)
            self.cameras = jobs.Cameras(*(camera.contiguous() for camera in cameras))
        if not in_place:
            new = {name: empty_plane(name, plane) for name, plane in present_planes(target).items()}
            rows = [torch.empty(row.shape, dtype=row.dtype, device=CPU) for row in self.rows]
            self.batch = target.derived(**new, **dict(zip(ROWS, rows, strict=True)))

    def kind(self, scene: Scene) -> Kind:
        """Return what kind of composition it is."""
        target, is_own = scene.target, scene.source is scene.target
        shares = False
        if self._in_place and not is_own:
            shares = share_memory([*self._planes, *self.rows], [*self._origin, *self._origin_rows])
        num_threads = library.num_threads(target.images.shape[0], _num_bytes(target))
        has_fragment = scene.mixture is not None
        kind = target.images.dtype, scene.is_panoptic, scene.needs_owner, has_fragment, self._in_place, is_own
        return Kind(*kind, shares, num_threads)

    def words(self) -> dict[str, list[int]]:
        """Return the words of the structs of the job; in place without the instances of the output."""
        planes, rows = jobs.plane_words(self._planes), addresses(self.rows)
        words = {"target": planes, "source": planes, "out": planes, "target_rows": rows}
        words["source_rows"] = [*rows[:2], 0, 0]
        if self._origin is not self._planes:
            words["source"] = jobs.plane_words(self._origin)
            words["source_rows"] = [*addresses(self._origin_rows), 0, 0]
        if not self._in_place:
            words["out"] = jobs.plane_words([*_PLANES_OF(self.batch)[:-1], None])
            words["out_rows"] = addresses(_ROWS_OF(self.batch))
        return words

    def tell_autograd(self) -> None:
        """Tell autograd of the writes in place, which it did not see."""
        if self._in_place:
            torch.autograd.graph.increment_version([t for t in _WRITTEN_OF(self.batch) if t is not None])


def check(error: int) -> None:
    """Raise the error that a job returns."""
    if error == 1:
        raise MemoryError("BatchCopyPaste: no memory for a paste; paste smaller batches, or into fewer slots")
    if error:
        raise ValueError(f"BatchCopyPaste: {_ERRORS[error]}")


def instances(batch: PaddedBatchedDenseSample) -> list[Tensor]:
    """Return the instances of a batch as row-major tensors, in the order of `ROWS`."""
    return [row.contiguous() for row in _ROWS_OF(batch)]


def lined(plane: Tensor | None) -> Tensor | None:
    """Return a plane whose lines are dense: itself, or a copy."""
    return plane if plane is None or plane.stride(-1) == 1 else plane.contiguous()


def lined_planes(batch: PaddedBatchedDenseSample) -> list[Tensor | None]:
    """Return the planes of a batch with dense lines, the padding mask last; images may be channels-last."""
    images, *others = _PLANES_OF(batch)
    is_last = images.is_contiguous(memory_format=torch.channels_last)
    planes = [t if t is None or t.stride(-1) == 1 else t.contiguous() for t in others]
    return [images if is_last else lined(images), *planes]


def _num_bytes(batch: PaddedBatchedDenseSample) -> int:
    return batch.images.nbytes + (0 if batch.instance_masks is None else batch.instance_masks.nbytes)


_ROWS_OF, _PLANES_OF, _WRITTEN_OF = attrgetter(*ROWS), attrgetter(*PLANES, "padding_mask"), attrgetter(*WRITTEN)
