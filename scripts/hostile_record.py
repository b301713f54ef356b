"""Record of `hostile_batches`: the number of batches pasted with each option, and the failures."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Self

import hostile_options
import torch
from hostile_inputs import Inputs
from hostile_options import Counts

import segpaste
from segpaste.workspace import write_whole

ROOT = Path(__file__).resolve().parents[1]


@dataclass
class Record:
    """Counts over batches, which can be continued.

    Attributes:
        file: where it is written, or None.
        command: that makes it.
        versions: of what the batches were pasted with.
        num_done: batches pasted, from the first seed on.
        num_pasted: those among them into which something was pasted.
        num_pastes: pastes in all.
        seconds: that all of it took.
        failed: seeds that failed, with what was wrong.
        options: `num_pasted` by the options of the config and their values.
        arguments: the same by the arguments of the module.
    """

    file: Path | None
    command: str
    versions: dict[str, str]
    num_done: int = 0
    num_pasted: int = 0
    num_pastes: int = 0
    seconds: float = 0.0
    failed: dict[str, list[str]] = field(default_factory=dict)
    options: Counts = field(default_factory=hostile_options.empty_counts)
    arguments: Counts = field(default_factory=lambda: {name: {"yes": 0, "no": 0} for name in ARGUMENTS})

    @classmethod
    def opened(cls, file: Path | None, backends: Sequence[str], seed: int, num: int) -> Self:
        """Read a record to continue it, or start one.

        Raises:
            ValueError: the file is a record of another command or of other versions.
        """
        command = f"python scripts/hostile_batches.py --num {num} --seed {seed} --backend {' '.join(backends)}"
        new = cls(file, command, _versions())
        if file is None or not file.exists():
            return new
        values = json.loads(file.read_text())
        for name in ("command", "versions"):
            if values[name] != (expected := getattr(new, name)):
                raise ValueError(f"{file}: expected a record with {name} {expected}, got {values[name]}; remove it")
        return cls(file, **values)

    def add(self, seed: int, num_placed: int, wrong: Sequence[str], inputs: Inputs) -> None:
        """Count one batch."""
        self.num_done += 1
        self.num_pastes += num_placed
        if wrong:
            self.failed[str(seed)] = list(wrong)
        if num_placed == 0:
            return
        self.num_pasted += 1
        hostile_options.add(self.options, inputs.config)
        for name, values in self.arguments.items():
            values["yes" if ARGUMENTS[name](inputs) else "no"] += 1

    def missing(self) -> list[str]:
        """Return the values of options and arguments that no batch used into which something was pasted."""
        return [*hostile_options.unused(self.options), *hostile_options.unused(self.arguments)]

    def write(self, seconds: float) -> None:
        """Write the file, if there is one, after more ``seconds`` of work."""
        self.seconds = round(self.seconds + seconds, 1)
        if self.file is not None:
            values = {name: value for name, value in asdict(self).items() if name != "file"}
            write_whole(self.file, (json.dumps(values, indent=1) + "\n").encode())

    def summary(self) -> str:
        """Return one line."""
        text = f"{self.num_done} batches, {self.num_pastes} pastes, {len(self.failed)} batches that failed, "
        seeds = ", ".join(list(self.failed)[:20])
        return f"{text}{self.seconds:.0f} s" + (f"; seeds {seeds}" if self.failed else "")


ARGUMENTS = {
    "inplace": lambda inputs: inputs.inplace,
    "staged": lambda inputs: inputs.staged is not None,
    "region": lambda inputs: inputs.region is not None,
    "keypoints": lambda inputs: inputs.batch.keypoints is not None,
    "keypoints of crops": lambda inputs: inputs.staged is not None and inputs.staged.keypoints is not None,
    "crowd_mask": lambda inputs: inputs.batch.crowd_mask is not None,
    "schedule.at": lambda inputs: inputs.progress > 0 and inputs.config.placement.fade_last > 0,
}
"""Arguments of the module, of its forward and of its schedule, and fields that only some batches have."""


def _versions() -> dict[str, str]:
    """Return the versions, the commit, and where Triton's kernels run."""
    try:
        triton = metadata.version("triton")
    except metadata.PackageNotFoundError:
        triton = "none"
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    return {
        "segpaste": segpaste.__version__,
        "commit": subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": triton,
        "kernels": torch.cuda.get_device_name() if torch.cuda.is_available() else "Triton's interpreter",
    }
