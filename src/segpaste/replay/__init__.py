"""The record of an augmented sample, and its re-run.

A record is one line of JSON: what pasted (version, config), into which sample (the five numbers that name it), from
which samples, and where. With the dataset it makes the sample again, bit for bit, on another batch size and another
backend:

    >>> out, report = augment(batch, return_report=True)
    >>> lines = [record.to_json() for record in records(augment, batch, out, report)]
    >>> sample = replay(ReplayRecord.from_json(lines[0]), loader.sample_for)

Nothing is drawn again: the placement is read from the record, and only the target and the sources that it names are
read. (Which classes ClassMix chose follows from the seed and the sources.) Not for a dataset that gives another sample
at each reading: take its draws from the sample's seed instead.
"""

from segpaste.replay.record import RecordedLayer, ReplayError, ReplayRecord, read_records
from segpaste.replay.recording import records, row_digest
from segpaste.replay.rerun import replay

__all__ = [
    "RecordedLayer",
    "ReplayError",
    "ReplayRecord",
    "read_records",
    "records",
    "replay",
    "row_digest",
]
