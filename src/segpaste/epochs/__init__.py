"""One way to go through data: which epoch a pass reads, from which place on, on which rank.

Samplers and loaders share one `EpochProgress` where they are used together. It holds the place, the state and the rank;
what an epoch consists of is a pure function of (epoch, rank) elsewhere.
"""

from segpaste.epochs._foreign import epoch_of, set_epoch_of
from segpaste.epochs.loading import EpochLoader
from segpaste.epochs.progress import EpochPass, EpochProgress
from segpaste.epochs.reader import EpochReader
from segpaste.epochs.replicas import Replica, ReplicaFinder, find_replica
from segpaste.epochs.sampling import EpochSampler
from segpaste.epochs.stateful import Stateful, expect_parts, has_state
from segpaste.epochs.states import callable_facts, expect_facts, expect_own_state, sampler_facts
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
