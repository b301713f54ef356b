"""The files of a training run, each there whole or not at all.

OUT/run.json    what the run depends on: config, data, processes
OUT/last.pt     after the last epoch that was finished: all that it takes to go on
OUT/best.pt     likewise, after the best one, and at the end the evidence of its codes
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch

from segpaste.encoder.evaluation.calibration import Calibration
from segpaste.encoder.evaluation.evidence import AttributeEvidence
from segpaste.encoder.model.encoder import BinaryAttributeEncoder
from segpaste.encoder.training._logs import CSV_NAME, TENSORBOARD_NAME
from segpaste.workspace import Run, write_whole

LAST, BEST = "last.pt", "best.pt"
_FORMAT = "segpaste encoder 1"


class CheckpointError(ValueError):
    """A file is no checkpoint of an encoder, or one of another run."""


class TrainedEncoder(NamedTuple):
    """What `load_encoder` finds.

    Attributes:
        encoder: on the CPU.
        label_names: of the classes that it was trained on.
        config: that it was trained with, as `segpaste.encoder.TrainConfig` dumps it.
        embedder: what made the embeddings of the bank that it was trained on, if it was one that says so.
        figures: of its epoch, by the names that the log has.
        evidence: of codes of the training set, calibrated on the validation set; None before the run is finished, or
            where it cannot be counted or calibrated.
    """

    encoder: BinaryAttributeEncoder
    label_names: tuple[str, ...]
    config: dict[str, Any]
    embedder: str | None
    figures: dict[str, float]
    evidence: AttributeEvidence | None = None


def load_encoder(path: str | os.PathLike[str]) -> TrainedEncoder:
    """Load ``best.pt`` or ``last.pt`` of a run, or of a run's folder the best.

    Raises:
        CheckpointError: the file is no checkpoint of an encoder.
        OSError: it cannot be read.
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
            f"{file}: expected a whole checkpoint of segpaste train, got one that lacks something or does not fit: "
            f"{type(error).__name__} {reason}"
        ) from error


def read_checkpoint(path: Path) -> dict[str, Any]:
    """What `write_checkpoint` wrote, on the CPU.

    Raises:
        CheckpointError: the file is something else.
        OSError: it cannot be read.
    """
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # of bytes that are no pickle the reader raises what it happens to meet
        raise CheckpointError(f"{path}: expected a checkpoint of segpaste train, got something else") from error
    if not isinstance(state, dict) or state.get("format") != _FORMAT:
        raise CheckpointError(f"{path}: expected a checkpoint of segpaste train ({_FORMAT}), got another file")
    return state


def write_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Write a file that is there whole or not at all, after a crash of the machine too."""
    whole = io.BytesIO()  # torch hides the system's error where a file cannot take it
    torch.save({"format": _FORMAT, **state}, whole)
    write_whole(path, whole.getbuffer())


def add_evidence(path: Path, evidence: AttributeEvidence | None) -> None:
    """Keep the evidence of an encoder, with its calibration, in its checkpoint."""
    if evidence is None or evidence.calibration is None:
        return
    kept = {"shares": torch.from_numpy(evidence.shares), "log_ratios": torch.from_numpy(evidence.log_ratios)}
    write_checkpoint(path, read_checkpoint(path) | {"evidence": kept | {"calibration": asdict(evidence.calibration)}})


def _evidence_of(state: Any) -> AttributeEvidence | None:
    """What `add_evidence` kept."""
    if state is None:
        return None
    calibration = Calibration(**state["calibration"])
    return AttributeEvidence(state["shares"].numpy(), state["log_ratios"].numpy(), calibration)


@contextlib.contextmanager
def claimed_run(folder: Path, fingerprint: Mapping[str, Any]) -> Iterator[dict[str, Any] | None]:
    """Take a folder for a run, see `segpaste.workspace.Run.claim`; what is finished is an epoch, with its checkpoints.

    Yields:
        The checkpoint that it goes on from, if there is one.

    Raises:
        CheckpointError: another run is there.
        OSError: the folder cannot be made.
    """
    results, owned = (LAST, BEST), (CSV_NAME, TENSORBOARD_NAME)
    run = Run(folder, CheckpointError, results=results, owned=owned, other="folder (--out)", what="a run", keeping=())
    with run.claim(fingerprint):
        is_kept = (folder / BEST).exists()  # without a last.pt: somebody has deleted all else of an earlier run
        try:
            yield read_checkpoint(folder / LAST) if (folder / LAST).exists() else None
        finally:
            if not is_kept and not (folder / LAST).exists():  # interrupted between the first two
                (folder / BEST).unlink(missing_ok=True)
