"""Two processes do what the first one does: its result and its error reach both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed, multiprocessing

from segpaste._ranks import is_said
from segpaste.encoder._processes import Processes


class Unpicklable(Exception):
    """Is made of two arguments and pickled with one."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} and {other}")


def raise_error(error: Exception) -> Any:
    raise error


def fail_on(ranks: tuple[int, ...], rank: int) -> None:
    if rank in ranks:
        raise ValueError(f"x{rank}")


def work(rank: int, folder: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    processes = Processes(rank, 2, torch.device("cpu"), "gloo")
    lines = [str(processes.from_first(lambda: {"rank": rank}))]
    for error in (ValueError("a"), OSError(28, "full", "f"), ImportError("no tensorboard"), Unpicklable("b", "c")):
        try:
            processes.from_first(lambda error=error: raise_error(error))  # type: ignore[misc]
        except Exception as found:
            lines.append(f"{type(found).__name__} {found}")
    for broken in ((0, 1), (1,), (0,)):
        try:
            processes.on_all(lambda broken=broken: fail_on(broken, rank))  # type: ignore[misc]
        except ValueError as found:
            lines.append(f"{found}{' (said)' * is_said(found)}")
    lines.append(str(processes.on_all(lambda: rank)))
    total = processes.all_reduce_(torch.tensor([rank + 1.0]))
    Path(folder, f"{rank}.txt").write_text("\n".join([*lines, str(total.item())]))
    distributed.destroy_process_group()


@pytest.mark.slow
def test_both(tmp_path: Path) -> None:
    multiprocessing.start_processes(
        work, (str(tmp_path),), nprocs=2, start_method="fork"
    )  # no imports, which take long
    raised = ["ValueError a", "OSError [Errno 28] full: 'f'", "ImportError no tensorboard"]
    for rank, last in enumerate(("Unpicklable b and c", "RuntimeError Unpicklable: b and c")):
        of_first, of_other = " (said)" * (rank == 1), " (said)" * (rank == 0)
        together = [f"x0{of_first}", f"x1{of_other}", f"x0{of_first}", str(rank)]
        lines = (tmp_path / f"{rank}.txt").read_text().splitlines()
        assert lines == ["{'rank': 0}", *raised, last, *together, "3.0"]


def test_one() -> None:
    processes = Processes(0, 1, torch.device("cpu"))
    assert processes.from_first(lambda: 3) == 3
    with pytest.raises(Unpicklable):
        processes.from_first(lambda: raise_error(Unpicklable("a", "b")))
