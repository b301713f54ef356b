"""The composition of a paste by the native library, alone or as part of a step."""

from __future__ import annotations

from array import array
from operator import attrgetter
from typing import Any, Final

import torch
from torch import Tensor

from segpaste.engine.native import jobs, library
from segpaste.engine.native.library import addresses, workspaces
from segpaste.engine.planes import (
    PLANES,
    ROWS,
    can_be_written,
    empty_plane,
    present_planes,
    share_memory,
    write_back,
    written_fields,
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
    k_s = placement.carried.shape[2]
    if k_s != source.max_instances + (scene.mixture is not None):
        raise ValueError(f"expected a placement of {source.max_instances} slots, the source's, got {k_s}")
    composition = Composition(scene, placement.carried.shape[1], with_layer=with_layer, in_place=in_place)
    outcome = empty(Outcome, CPU, composition.sizes, batch=composition.batch)
    given = composition.given(placement, outcome)
    check(jobs.COMPOSE.run(workspaces(composition.num_threads).buffer_info()[0], library.parallel(), **given))
    composition.finish()
    return outcome


class Composition:
    """Sizes of a composition, and the tensors that it reads and writes; addresses of them are valid as long as it is.

    Args:
        scene: the scene.
        num_layers: L.
        with_layer: whether the visible layer is asked for.
        in_place: whether the target, which `can_be_written`, is the output.

    Attributes:
        sizes: values of the symbols in shapes.
        rows: instances of the target, dense, in the order of `ROWS`.
        batch: the output.
        num_threads: number of threads to use.
    """

    def __init__(self, scene: Scene, num_layers: int, *, with_layer: bool, in_place: bool) -> None:
        target, source = scene.target, scene.source
        b, k, (height, width) = target.batch_size, target.max_instances, target.canvas_size
        self._scene, self._in_place = scene, in_place
        self.sizes = {"B": b, "L": num_layers, "K": k, "V": b if with_layer else 0, "H": height, "W": width}
        self.sizes |= {"S": source.batch_size, "C": target.images.shape[1]}
        self.sizes["H_s"], self.sizes["W_s"] = source.canvas_size
        self.sizes["K_s"] = source.max_instances + (scene.mixture is not None)
        self.num_threads = library.num_threads(b, _num_bytes(target))
        self._shared = array("q", bytes(16 * b))
        self._planes, self.rows = lined_planes(target), instances(target)
        if source is target:
            self._origin = self._planes, self.rows
        else:
            self._origin = lined_planes(source), [source.boxes.contiguous(), source.labels.contiguous()]
        self._cameras = None
        if target.metric_depth and target.depth is not None and source.depth is not None:
            cameras = not_none(target.camera_intrinsics), not_none(source.camera_intrinsics)
            self._cameras = jobs.Cameras(*(camera.contiguous() for camera in cameras))
        self._new: dict[str, Tensor] = {}
        self.batch = target
        if in_place:
            self._staging = torch.empty(4 * b * k, dtype=torch.int64, device=CPU)
        else:
            self._new = {name: empty_plane(name, plane) for name, plane in present_planes(target).items()}
            new_rows = [torch.empty(row.shape, dtype=row.dtype, device=CPU) for row in self.rows]
            self._new |= dict(zip(ROWS, new_rows, strict=True))
            self.batch = target.derived(**self._new)

    def given(self, placement: Placement | list[int], outcome: Outcome | list[int]) -> dict[str, Any]:
        """Return the arguments of the job."""
        scene, planes = self._scene, jobs.plane_words(self._planes)
        target, source, own = scene.target, scene.source, scene.source is scene.target
        origin, origin_rows = self._origin
        shared = self._shared.buffer_info()[0]
        rows = addresses(self.rows)
        return {
            "sizes": self.sizes,
            "pixel_kind": _KINDS[target.images.dtype],
            "largest_id": MAX_FED_BACK_ID,
            "exclusive": scene.is_panoptic,
            "with_owner": scene.needs_owner,
            "has_fragment": scene.mixture is not None,
            "in_place": self._in_place,
            "reads_itself": own,
            "shares_memory": self._in_place
            and not own
            and share_memory([*self._planes, *self.rows], [*origin, *origin_rows]),
            "num_threads": self.num_threads,
            "readers": shared,
            "is_taken": shared + 8 * self.sizes["B"],
            "placement": placement,
            "rules": scene.rules,
            "classes": Classes(scene.classes.is_thing, scene.watched, scene.rank),
            "mixture": scene.mixture,
            "cameras": self._cameras,
            "outcome": outcome,
            "target": planes,
            "source": planes if own else jobs.plane_words(origin),
            "out": planes if self._in_place else jobs.plane_words([*map(self._new.get, PLANES), None]),
            "target_rows": rows,
            "source_rows": [*(rows if own else addresses(origin_rows))[:2], 0, 0],
            "out_rows": self._out_rows(),
        }

    def finish(self) -> None:
        """Tell autograd of writes in place, which it did not see."""
        if self._in_place:
            torch.autograd.graph.increment_version([*written_fields(self._scene.target).values()])

    def _out_rows(self) -> list[int]:
        """Return the addresses of the new instances; in place, of room for them beside those that are still read."""
        if not self._in_place:
            return addresses([self._new[name] for name in ROWS])
        base, num = self._staging.data_ptr(), self.sizes["B"] * self.sizes["K"]
        return [base, base + 16 * num, base + 24 * num, base + 28 * num]  # of 16, 8, 4 and 1 bytes


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
    return [images if is_last else lined(images), *map(lined, others)]


def _num_bytes(batch: PaddedBatchedDenseSample) -> int:
    return batch.images.nbytes + (0 if batch.instance_masks is None else batch.instance_masks.nbytes)


_ROWS_OF, _PLANES_OF = attrgetter(*ROWS), attrgetter(*PLANES, "padding_mask")
