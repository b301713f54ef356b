"""The batches of an epoch that is not shuffled, written as one would do it by hand: slow, and without tricks."""

from __future__ import annotations

from collections.abc import Sequence


def most_batches(sizes: Sequence[int], num_distinct: int) -> int:
    """The most batches of N distinct classes: one more cannot be filled, as each class helps a batch only once."""
    batches = 0
    while sum(min(size, batches + 1) for size in sizes) >= num_distinct * (batches + 1):
        batches += 1
    return batches


def exhaustive(labels: Sequence[int], num_distinct: int, samples_per_class: int) -> list[list[int]]:
    """All samples, M at a time, in batches of N distinct classes, as many of them as there can be."""
    classes = sorted(set(labels))
    members = {c: [i for i, label in enumerate(labels) if label == c] for c in classes}
    groups = {}
    for c in classes:
        first = members[c][: samples_per_class * (len(members[c]) // samples_per_class)]
        rest = members[c][len(first) :]
        again = 0
        while len(rest) % samples_per_class:
            rest.append(members[c][again % len(members[c])])
            again += 1
        row = first + rest
        groups[c] = [row[i : i + samples_per_class] for i in range(0, len(row), samples_per_class)]
    left = most_batches([len(groups[c]) for c in classes], num_distinct)
    queue, batches = list(classes), []
    while left:
        urgent = [c for c in queue if len(groups[c]) >= left][:num_distinct]
        others = [c for c in queue if c not in urgent and len(groups[c]) < left]
        chosen = urgent + others[: num_distinct - len(urgent)]
        chosen.sort(key=queue.index)
        batches.append([i for c in chosen for i in groups[c].pop(0)])
        queue = [c for c in queue if c not in chosen] + [c for c in chosen if groups[c]]
        left -= 1
    return batches
