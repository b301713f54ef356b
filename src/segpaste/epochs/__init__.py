"""Progress of samplers and loaders through the data: the epoch that a pass reads, its start and its rank.

Samplers and loaders that are used together share one `EpochProgress`, which holds the place, the state and the rank.
The content of an epoch is a pure function of (epoch, rank), defined by each sampler.
"""

from segpaste.epochs._other_loaders import epoch_of, set_epoch_of
from segpaste.epochs.progress import EpochPass, EpochProgress
from segpaste.epochs.reader import EpochLoader, EpochReader, EpochSampler
from segpaste.epochs.replicas import Replica, ReplicaFinder, find_replica
from segpaste.epochs.stateful import (
    Stateful,
    callable_facts,
    expect_facts,
    expect_own_state,
    expect_parts,
    has_state,
    sampler_facts,
)
from segpaste.epochs.wrapping import LoaderWrapper, follow_pass

__all__ = [
    "EpochLoader",
    "EpochPass",
    "EpochProgress",
    "EpochReader",
    "EpochSampler",
    "LoaderWrapper",
    "Replica",
    "ReplicaFinder",
    "Stateful",
    "callable_facts",
    "epoch_of",
    "expect_facts",
    "expect_own_state",
    "expect_parts",
    "find_replica",
    "follow_pass",
    "has_state",
    "sampler_facts",
    "set_epoch_of",
]
