#!/usr/bin/env bash
# Tells everything about a machine with a CUDA device, in three parts of less than ten minutes each.
#
#     scripts/check_gpu.sh --out DIR [--wheels DIR] [--python PYTHON] [right] [fast] [why]
#
# right  every Triton kernel against the reference on the device; compute-sanitizer's memcheck and racecheck, if installed
# fast   every shape of the device table, and `segpaste bench --quick --device cuda`
# why    launches and device time by kernel, registers and spills of each kernel for this card, the counted launches
#
# All parts run by default. Each writes its output, and what it measured, into DIR. --wheels names a folder of wheels that
# are installed into a new environment in DIR first, without an index; what the machine's Python has is used, too.
#
# Exit codes: 0 all parts succeeded, 1 a part failed, 2 wrong arguments, 3 torch sees no CUDA device.
set -uo pipefail

usage() {
    sed -n 's/^# \{0,1\}//p' "$0" | sed -n '2,/^Exit codes/p' >&2
    exit 2
}

say() {
    echo "check_gpu: $*" >&2
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out="" wheels="" python=${PYTHON:-python3} parts=()
while [ $# -gt 0 ]; do
    case $1 in
    --out | --wheels | --python)
        [ $# -ge 2 ] || usage
        printf -v "${1#--}" %s "$2"
        shift 2
        ;;
    right | fast | why)
        parts+=("$1")
        shift
        ;;
    *)
        say "expected right, fast, why or an option, got '$1'"
        usage
        ;;
    esac
done
[ -n "$out" ] || { say "expected --out DIR" && usage; }
[ -z "$wheels" ] || [ -d "$wheels" ] || { say "expected a folder of wheels, got '$wheels'" && usage; }
[ ${#parts[@]} -gt 0 ] || parts=(right fast why)
mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd)

if [ -n "$wheels" ]; then
    wheels=$(cd "$wheels" && pwd)
    say "installing the wheels of $wheels into $out/environment"
    "$python" -m venv --system-site-packages "$out/environment" || exit 1
    python=$out/environment/bin/python
    "$python" -m pip install --quiet --no-index --find-links "$wheels" "$wheels"/*.whl >"$out/install.txt" 2>&1 || {
        say "the wheels could not be installed, see $out/install.txt"
        exit 1
    }
fi

cd "$root" || exit 1
export PYTHONPATH="$root/src:$root/tests${PYTHONPATH:+:$PYTHONPATH}"
"$python" - >"$out/machine.txt" 2>&1 <<'PYTHON' || { say "$(tail -n 1 "$out/machine.txt")" && exit 3; }
import platform, sys
try:
    import torch
except ImportError as error:
    sys.exit(f"torch cannot be imported: {error}")
if not torch.cuda.is_available():
    sys.exit(f"torch {torch.__version__} sees no CUDA device on this machine: nothing was checked")
import triton
print(f"python {platform.python_version()}, torch {torch.__version__}, triton {triton.__version__}")
for i in range(torch.cuda.device_count()):
    found = torch.cuda.get_device_properties(i)
    print(f"cuda:{i} {found.name}, sm_{found.major}{found.minor}, {found.total_memory >> 20} MiB")
PYTHON
cat "$out/machine.txt" >&2
card=$("$python" -c 'import torch; print(*torch.cuda.get_device_capability(), sep="")')

# The native library is a backend of its own on the CPU; without a compiler the reference runs in its place.
ls src/segpaste/engine/native/*.so >/dev/null 2>&1 || "$python" src/segpaste/engine/native/build.py >"$out/native.txt" 2>&1 ||
    say "the native library was not built, see $out/native.txt"

# step NAME SECONDS COMMAND...: run it, keep its output, and remember a failure; it is stopped after its seconds.
failed=0
step() {
    local name=$1 seconds=$2 start=$SECONDS status=0
    shift 2
    timeout --kill-after=10 "$seconds" "$@" >"$out/$name.txt" 2>&1 || status=$?
    case $status in
    0) say "$name: fine, $((SECONDS - start)) s" ;;
    124 | 137) say "$name: stopped after $seconds s, see $out/$name.txt" ;;
    *) say "$name: FAILED with $status after $((SECONDS - start)) s, see $out/$name.txt" ;;
    esac
    [ "$status" -eq 0 ] || failed=1
}

checks=("$python" -m pytest -q -p no:cacheprovider -o addopts=)
kernels=(tests/engine/{cuda_checks,cuda_in_place,looks_checks,draws_checks,crop_checks}.py)
sanitized="degenerate_batches or borders_of_tiles or any_layout or many_slots or priorities or crops"

right() {
    step right-kernels 240 "${checks[@]}" "${kernels[@]}"
    SEGPASTE_TEST_DEVICE=cuda step right-backends 150 "${checks[@]}" \
        tests/engine/test_backends.py -k "TestAgree or TestForeignSource"
    if command -v compute-sanitizer >/dev/null; then
        for tool in memcheck racecheck; do
            PYTORCH_NO_CUDA_MEMORY_CACHING=1 step "right-$tool" 90 \
                compute-sanitizer --tool "$tool" --error-exitcode 9 "${checks[@]}" "${kernels[@]}" -k "$sanitized"
        done
    else
        say "right: compute-sanitizer is not installed: no memcheck, no racecheck"
    fi
}

fast() {
    step fast-steps 330 "$python" -m benchmarks.device_steps --out "$out/device_steps.json"
    rm -rf "$out/bench"
    step fast-bench 250 "$python" -m segpaste bench --quick --device cuda --out "$out/bench"
}

why() {
    step why-launches 120 "$python" -m benchmarks.launches --quick --out "$out/launches.json"
    step why-profiles 200 "$python" -m benchmarks.profiles --out "$out/profiles.json"
    step why-kernels 260 "$python" scripts/compile_kernels.py --cards "$card" --every 2 --out "$out/kernels.json"
}

for part in "${parts[@]}"; do
    say "$part"
    "$part"
done
exit "$failed"
