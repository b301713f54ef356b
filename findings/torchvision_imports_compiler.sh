#!/usr/bin/env bash
# Importing torchvision imports torch's compiler, though the file that does so says that it avoids that.
#
# Most expect: `import torch` leaves torch._dynamo, torch._inductor, sympy and Triton alone until something is compiled, and
# torchvision, a library of datasets and transforms, does not change that. ops/roi_align.py has a decorator that compiles
# lazily, "to avoid eagerly importing dynamo". The same file imports a function from torch._dynamo.utils at its top, and
# every `from torchvision import tv_tensors` or `transforms` runs that file.
#
# Why it matters: each process pays, also each spawned worker of a data loader, which compiles nothing: about a second of
# CPU and 100 to 200 MB that workers do not share. Code that asks whether torch._dynamo is in sys.modules, in order to find
# out whether anything was compiled, is told yes.
#
# Ends with 0 if the behaviour is as described, with 1 if it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check torch==2.15.0 torchvision==0.29.2 numpy==2.3.5
cat > "$folder/imports.py" <<'PYTHON'
import resource
import sys
import time


def cost():
    return time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, len(sys.modules)


def report(what, before):
    seconds, megabytes, modules = (now - then for now, then in zip(cost(), before))
    print(f"{what}: {seconds:.2f} s of CPU, {megabytes:.0f} MB more, {modules} modules")
    for name in ("torch._dynamo", "torch._inductor", "torch.onnx", "sympy", "triton"):
        print(f"  {name:16} {'imported' if name in sys.modules else 'not imported'}")


start = cost()
import torch

report(f"import torch {torch.__version__}", start)
was_there = "torch._dynamo" in sys.modules
start = cost()
from torchvision import tv_tensors
import torchvision

report(f"from torchvision {torchvision.__version__} import tv_tensors", start)
sys.exit(0 if not was_there and "torch._dynamo" in sys.modules else 1)
PYTHON
"$folder/env/bin/python" -c "import torch, torchvision" # so that files are compiled to bytecode before they are timed
"$folder/env/bin/python" "$folder/imports.py"
