"""Records of augmented samples, and their replay.

A record is one line of JSON: the version and config of the paste, the key of the target sample (five numbers), the
keys of its sources, and the placement. With the dataset it gives the sample again, bit for bit, with any batch size and
on any backend:

    >>> out, report = augment(batch, return_report=True)
    >>> lines = [record.to_json() for record in records(augment, batch, out, report)]
    >>> sample = replay(ReplayRecord.from_json(lines[0]), loader.sample_for)

Nothing is drawn again: the placement is in the record, and only the target and the sources that it names are read. (The
classes of ClassMix follow from the seed and the sources.) The dataset must give the same sample at each read: let it
draw from the seed of the sample.
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
