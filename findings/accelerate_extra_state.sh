#!/usr/bin/env bash
# Accelerate cannot load a checkpoint with a device map if a module has extra state, though PyTorch saves and loads it.
#
# Most expect: get_extra_state and set_extra_state are PyTorch's documented way for a module to keep more than parameters
# and buffers in its state_dict, so whatever loads a state_dict into the same model loads them, or skips them. It does not:
# load_checkpoint_and_dispatch and load_checkpoint_in_model set the entries one by one, and stop with a ValueError at the
# first that is neither a parameter nor a buffer. Without a device_map the same call loads the same file, since it then
# calls load_state_dict.
#
# Why it matters: a checkpoint that a training run has saved, and that loads there, cannot be loaded for inference on
# another layout of devices. Modules with extra state are quantised layers, schedules and augmentations inside a model.
# Load such a checkpoint with load_state_dict, or leave these entries out of the file.
#
# Ends with 0 if the behaviour is as described, with 1 if it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check \
    torch==2.13.0 accelerate==1.15.0 safetensors==0.8.0 numpy==2.3.5
cat > "$folder/load.py" <<'PYTHON'
import sys

import accelerate
import torch
from accelerate import load_checkpoint_in_model
from safetensors.torch import save_file
from torch import nn


class Counting(nn.Module):
    """A layer that keeps the number of its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.calls = nn.Linear(2, 2), 0

    def get_extra_state(self):
        return torch.tensor(self.calls)

    def set_extra_state(self, state):
        self.calls = int(state)


saved = nn.Sequential(Counting())
saved[0].calls = 7
save_file(saved.state_dict(), "model.safetensors")
print(f"torch {torch.__version__}, accelerate {accelerate.__version__}; entries: {', '.join(saved.state_dict())}")

found = {}
for name, device_map in (("without a device map", None), ("with a device map", {"": "cpu"})):
    model = nn.Sequential(Counting())
    try:
        load_checkpoint_in_model(model, "model.safetensors", device_map=device_map)
        found[name] = f"loaded, calls {model[0].calls}"
    except ValueError as error:
        found[name] = f"ValueError: {' '.join(str(error).split())}"
    print(f"  {name}: {found[name]}")
is_as_described = "calls 7" in found["without a device map"] and "_extra_state" in found["with a device map"]
sys.exit(0 if is_as_described else 1)
PYTHON
cd "$folder"
"$folder/env/bin/python" load.py
