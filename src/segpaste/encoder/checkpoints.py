"""Files of a training run, each of them complete or absent.

OUT/run.json        fingerprint of the run: configuration, data, processes
OUT/last.pt         checkpoint after the last finished epoch, from which the run resumes
OUT/best.pt         checkpoint after the best epoch; at the end, also the evidence of its codes
OUT/attributes.csv  a line for each attribute, at the end; see `segpaste.encoder.attribute_terms`
OUT/log.csv         a line for each epoch, and TensorBoard's files in OUT/tensorboard

The checkpoint holds the logged figures too, and a run that resumes rewrites the log from it. Hence no line is lost or
duplicated, wherever the run was interrupted.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from segpaste.encoder.attribute_terms import attribute_columns, columns_csv
from segpaste.encoder.calibration import Calibration
from segpaste.encoder.codes import Bits
from segpaste.encoder.evidence import AttributeEvidence
from segpaste.encoder.model import BinaryAttributeEncoder
from segpaste.extras import require
from segpaste.workspace import Run, write_whole

LAST, BEST = "last.pt", "best.pt"
_FORMAT = "segpaste encoder 1"

CSV_NAME, TENSORBOARD_NAME = "log.csv", "tensorboard"
ATTRIBUTES_NAME = "attributes.csv"
Row = Mapping[str, float]


class CheckpointError(ValueError):
    """Error raised if a file is not a checkpoint of an encoder, or belongs to another run."""


class TrainedEncoder(NamedTuple):
    """Content of a checkpoint.

    Attributes:
        encoder: encoder on the CPU.
        label_names: names of the classes of the training set.
        config: configuration of the training, as `segpaste.encoder.TrainConfig` dumps it.
        embedder: name of the embedder of the training vectors, if they come from a bank that states it.
        figures: figures of the epoch, by their names in the log.
        evidence: evidence of codes of the training set, calibrated on the validation set; None before the run is
            finished, or if it cannot be estimated or calibrated.
    """

    encoder: BinaryAttributeEncoder
    label_names: tuple[str, ...]
    config: dict[str, Any]
    embedder: str | None
    figures: dict[str, float]
    evidence: AttributeEvidence | None = None


def load_encoder(path: str | os.PathLike[str]) -> TrainedEncoder:
    """Load ``best.pt`` or ``last.pt`` of a run; given the folder of the run, load ``best.pt``.

    Raises:
        CheckpointError: the file is not a checkpoint of an encoder.
        OSError: the file cannot be read.
    """
    file = Path(path)
    state = read_checkpoint(file / BEST if file.is_dir() else file)
    try:
        encoder = BinaryAttributeEncoder(**state["sizes"])
        encoder.load_state_dict(state["encoder"])
        names, figures = tuple(state["label_names"]), state["history"][-1]
        evidence = _evidence_of(state.get("evidence"))
        return TrainedEncoder(encoder.eval(), names, state["config"], state["embedder"], figures, evidence)
    except (KeyError, TypeError, IndexError, RuntimeError) as error:
        reason = str(error).strip().rpartition("\n")[2].strip()
        raise CheckpointError(
            f"{file}: expected a complete checkpoint of segpaste train, got one that lacks something or does not fit: "
            f"{type(error).__name__} {reason}"
        ) from error


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read the state that `write_checkpoint` wrote, to the CPU.

    Raises:
        CheckpointError: the file is not a checkpoint.
        OSError: the file cannot be read.
    """
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # for bytes that are not a pickle it may be any error
        raise CheckpointError(f"{path}: expected a checkpoint of segpaste train, got something else") from error
    if not isinstance(state, dict) or state.get("format") != _FORMAT:
        raise CheckpointError(f"{path}: expected a checkpoint of segpaste train ({_FORMAT}), got another file")
    return state


def write_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Write a checkpoint completely or not at all, even after a crash of the machine."""
    whole = io.BytesIO()  # torch.save to a file would hide the error of the system
    torch.save({"format": _FORMAT, **state}, whole)
    write_whole(path, whole.getbuffer())


def add_evidence(path: Path, evidence: AttributeEvidence | None) -> None:
    """Add the evidence of an encoder, with its calibration, to its checkpoint."""
    if evidence is None or evidence.calibration is None:
        return
    kept = {"shares": torch.from_numpy(evidence.shares), "log_ratios": torch.from_numpy(evidence.log_ratios)}
    write_checkpoint(path, read_checkpoint(path) | {"evidence": kept | {"calibration": asdict(evidence.calibration)}})


def write_attributes(
    folder: Path, evidence: AttributeEvidence, codes: Bits, labels: NDArray[np.int64]
) -> Mapping[str, NDArray[np.float64]]:
    """Write the table of attributes of the training set, and return its columns."""
    columns = attribute_columns(evidence, codes, labels)
    write_whole(folder / ATTRIBUTES_NAME, columns_csv(columns))
    return columns


def _evidence_of(state: Any) -> AttributeEvidence | None:
    """Return the evidence that `add_evidence` stored."""
    if state is None:
        return None
    calibration = Calibration(**state["calibration"])
    return AttributeEvidence(state["shares"].numpy(), state["log_ratios"].numpy(), calibration)


@contextlib.contextmanager
def claimed_run(folder: Path, fingerprint: Mapping[str, Any]) -> Iterator[dict[str, Any] | None]:
    """Claim a folder for a run whose results are checkpoints; see `segpaste.workspace.Run.claim`.

    Yields:
        The checkpoint from which the run resumes, if there is one.

    Raises:
        CheckpointError: the folder belongs to another run.
        OSError: the folder cannot be created.
    """
    results, owned = (LAST, BEST), (CSV_NAME, TENSORBOARD_NAME, ATTRIBUTES_NAME)
    run = Run(folder, CheckpointError, results=results, owned=owned, other="folder (--out)", what="a run", keeping=())
    with run.claim(fingerprint):
        is_kept = (folder / BEST).exists()  # without last.pt: the user deleted the rest of a run
        try:
            yield read_checkpoint(folder / LAST) if (folder / LAST).exists() else None
        finally:
            if not is_kept and not (folder / LAST).exists():  # interrupted before the first last.pt
                (folder / BEST).unlink(missing_ok=True)


class RunLog:
    """Log in the folder of a run; close it at the end.

    Args:
        folder: folder of the run.
        kind: kind of log files.
        history: rows of the finished epochs; each has an ``epoch``.
    """

    def __init__(self, folder: Path, kind: Literal["csv", "tensorboard", "both"], history: Sequence[Row]) -> None:
        self._csv = folder / CSV_NAME if kind != "tensorboard" else None
        self._events: Any = None
        if kind != "csv":
            require("tensorboard")
        if kind == "tensorboard":  # the run may have logged to CSV before it was interrupted
            (folder / CSV_NAME).unlink(missing_ok=True)
        for old in (folder / TENSORBOARD_NAME).glob("events.out.tfevents.*"):
            old.unlink()
        with suppress(OSError):
            (folder / TENSORBOARD_NAME).rmdir()
        if kind != "csv":
            from torch.utils.tensorboard import SummaryWriter

            self._events = SummaryWriter(folder / TENSORBOARD_NAME)
        self._rows = list(history)
        for row in self._rows:
            self._add_events(row)
        if self._rows:
            self._write_csv()

    def add(self, row: Row) -> None:
        """Log the row of another epoch."""
        self._rows.append(row)
        self._add_events(row)
        self._write_csv()

    def close(self) -> None:
        """Write pending events."""
        if self._events is not None:
            self._events.close()

    def _add_events(self, row: Row) -> None:
        if self._events is not None:
            for name, value in row.items():
                if name != "epoch":
                    self._events.add_scalar(name, value, int(row["epoch"]))

    def _write_csv(self) -> None:
        if self._csv is None:
            return
        text = io.StringIO()
        writer = csv.DictWriter(text, list(self._rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self._rows)
        write_whole(self._csv, text.getvalue().encode())
