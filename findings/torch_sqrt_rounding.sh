#!/usr/bin/env bash
# torch.sqrt on a CPU is not the correctly rounded square root, and which values are off depends on the machine.
#
# Most expect: IEEE 754 demands correctly rounded square roots, every CPU has an instruction for them, and NumPy and C use
# it, so torch.sqrt gives the same bits everywhere. It does not: builds with MKL call its vector library, whose root may be
# one unit in the last place off, in float32 and in float64, also for a single number, and for other values on another
# brand of CPU. MKL_CBWR=COMPATIBLE selects the code that MKL runs on CPUs that are not Intel's.
#
# Why it matters: normals, focal lengths and norms that pass through torch.sqrt differ between machines, and from NumPy,
# Triton and C++ on the same machine. Golden files, digests of replays and comparisons of backends bit for bit fail then.
# A root in float64, rounded to float32, is safe: float64 roots that are one unit off round to the same float32.
#
# Ends with 0 if the behaviour is as described, with 1 if it has changed, with 2 where torch has no MKL.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy==2.3.5
cat > "$folder/roots.py" <<'PYTHON'
import sys

import numpy as np
import torch

if not torch.backends.mkl.is_available():
    print("this torch has no MKL")
    sys.exit(2)
values = torch.from_numpy(np.random.default_rng(0).uniform(0.01, 100, 100_000))
found = {}
for dtype in (torch.float32, torch.float64):
    x = values.to(dtype)
    found[dtype] = float((torch.sqrt(x).numpy() != np.sqrt(x.numpy())).mean())
x = values.to(torch.float32)
found["rounded from float64"] = float((torch.sqrt(x.double()).float().numpy() != np.sqrt(x.numpy())).mean())
print(f"torch {torch.__version__}, NumPy {np.__version__}: share of roots that differ from NumPy's")
for name, share in found.items():
    print(f"  {name}: {share:.4f}")
sys.exit(0 if found[torch.float32] > 0 and found[torch.float64] > 0 and not found["rounded from float64"] else 1)
PYTHON
echo "MKL as it chooses:"
"$folder/env/bin/python" "$folder/roots.py"
echo "MKL as on a CPU of another brand:"
MKL_CBWR=COMPATIBLE "$folder/env/bin/python" "$folder/roots.py"
