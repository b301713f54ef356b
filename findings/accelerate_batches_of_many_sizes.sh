#!/usr/bin/env bash
# Accelerate loses samples of batches whose sizes differ, as batches by image size or by number of objects have.
#
# Most expect: on two processes each batch of a batch sampler goes to one of them, and over both every sample is seen. Batches
# of several sizes are what batch samplers are for: fewer large images in a batch, more small ones.
# What happens: `prepare` shares the batches out by the `batch_size` of the sampler. A batch with fewer samples is taken for
# the short one at the end of an epoch: it, and all that waits with it, is dropped or joined with samples from the start.
# Accelerate's documentation names `even_batches=False` for batches of several sizes. It loses samples as well. Only with a
# sampler whose `batch_size` is None none is lost. There is no warning.
#
# Why it matters: on one process all samples are seen, on two most of the data set is never read; epochs are shorter, and
# evaluation runs on a part of the images. Which samples are lost depends on the order of the batches.
#
# Prints versions and the samples seen, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check \
    torch==2.13.0 accelerate==1.15.0 safetensors==0.8.0 numpy==2.3.5
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import sys

import accelerate
import torch
from accelerate.data_loader import prepare_data_loader
from torch.utils.data import DataLoader

BATCHES = [[0, 1, 2, 3], [4, 5], [6, 7, 8], [9], [10, 11, 12, 13], [14, 15]]  # at most 4 images, fewer if they are large


class BySize:
    """Batches of one size of image each."""

    drop_last = False

    def __init__(self, batch_size: int | None) -> None:
        self.batch_size = batch_size

    def __iter__(self):
        return iter(BATCHES)

    def __len__(self) -> int:
        return len(BATCHES)


print(f"torch {torch.__version__}, accelerate {accelerate.__version__}; batches {BATCHES}")
lost = {}
for batch_size in (4, None):
    for even_batches in (True, False):
        loader = DataLoader(torch.arange(16), batch_sampler=BySize(batch_size))
        shares = []
        for process in range(2):
            options = {"num_processes": 2, "process_index": process, "even_batches": even_batches}
            shard = prepare_data_loader(loader, put_on_device=False, dispatch_batches=False, **options)
            shares.append([list(batch) for batch in shard.batch_sampler])
        seen = {sample for share in shares for batch in share for sample in batch}
        lost[batch_size, even_batches] = sorted(set(range(16)) - seen)
        print(f"  batch_size {batch_size}, even_batches {even_batches}: the processes get {shares[0]} and {shares[1]}")
        print(f"    never seen: {lost[batch_size, even_batches]}")
expected = {(4, True): 8, (4, False): 8, (None, True): 0, (None, False): 0}
sys.exit(0 if {key: len(value) for key, value in lost.items()} == expected else 1)
PYTHON
