#!/usr/bin/env bash
# A spawned worker of torch's DataLoader may abort at its end: "terminate called without an active exception".
#
# Most expect: a loop over a DataLoader that ends early ends its workers silently. What happens: the interpreter of a
# spawned worker ends while the thread of its result queue shares the tensors of the next batches. Python ends that
# thread when it comes back from C++ to take the interpreter's lock; unwinding passes a destructor that may not throw,
# and C++ aborts. The main process then prints "DataLoader worker (pid ...) is killed by signal: Aborted". Forked workers
# end without an end of the interpreter.
#
# The script ends a loop after two batches, ten times, and counts the aborts (torch 2.15: most runs). It exits with 1 if there is
# none, which means that the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q torch numpy
cat > "$folder/loop.py" <<'PYTHON'
import torch
from torch.utils.data import DataLoader, Dataset


class Many(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        return [torch.empty(1 << 20) for _ in range(4)]  # slow to share, fast to make


def unchanged(samples):
    return samples


if __name__ == "__main__":
    options = {"num_workers": 1, "prefetch_factor": 4, "multiprocessing_context": "spawn", "collate_fn": unchanged}
    for number, batch in enumerate(DataLoader(Many(), batch_size=4, **options)):
        if number == 1:
            break
PYTHON
aborts=0
for _ in $(seq 10); do
    if "$folder/env/bin/python" "$folder/loop.py" 2>&1 | grep -q "terminate called"; then aborts=$((aborts + 1)); fi
done
echo "$aborts of 10 runs: terminate called without an active exception"
[ "$aborts" -gt 0 ]
