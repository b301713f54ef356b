#!/usr/bin/env bash
# Tells everything about a machine with a CUDA device, in three parts of less than ten minutes each.
#
#     scripts/check_gpu.sh --out DIR [--wheels DIR] [--python PYTHON] [--seconds N] [right] [fast] [why]
#
# right  every Triton kernel and random batches against the CPU; the same forwards repeated in other timing; CUDA graphs of
#        eager and compiled forwards; two processes, by NCCL on two cards, else by gloo; compute-sanitizer's memcheck and
#        racecheck. Needs compute-sanitizer, on PATH, under CUDA_HOME, or named by COMPUTE_SANITIZER.
# fast   every shape of the device table, and `segpaste bench --quick --device cuda`; a missed goal is a failure
# why    launches and device time by kernel, registers and spills of each kernel for this card, the counted launches; a
#        preset with more than 12 launches, or a wait, is a failure
#
# All parts run by default. Each writes its output, and what it measured, into DIR; DIR/ran.txt lists every step with its
# result, seconds and command. A part ends after --seconds, 580 by default: what does not fit fails. --wheels names a folder
# of wheels that are installed into a new environment in DIR first, without an index; what the machine's Python has is
# used, too.
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
out="" wheels="" python=${PYTHON:-python3} seconds=580 parts=()
while [ $# -gt 0 ]; do
    case $1 in
    --out | --wheels | --python | --seconds)
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
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { say "expected --seconds N, a whole number above 0, got '$seconds'" && usage; }
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

# step NAME SECONDS COMMAND...: run it, keep its output, and remember a failure; it is stopped after its seconds, or at the
# end of the part.
failed=0 deadline=0
: >"$out/ran.txt"
step() {
    local name=$1 most=$2 start=$SECONDS status=0 result
    shift 2
    [ "$most" -le $((deadline - start)) ] || most=$((deadline - start))
    if [ "$most" -gt 0 ]; then
        timeout --kill-after=10 "$most" "$@" >"$out/$name.txt" 2>&1 || status=$?
    else
        status=-1
    fi
    case $status in
    0) result="fine, $((SECONDS - start)) s" ;;
    -1) result="NOT RUN, the part has no time left" ;;
    124 | 137) result="stopped after $most s, see $out/$name.txt" ;;
    *) result="FAILED with $status after $((SECONDS - start)) s, see $out/$name.txt" ;;
    esac
    ended "$name" "$result" "$*"
    [ "$status" -eq 0 ] || failed=1
    return $((status != 0))
}

# ended NAME RESULT COMMAND: tell, and list in ran.txt.
ended() {
    say "$1: $2"
    printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$out/ran.txt"
}

# beside ARGUMENTS...: a step that runs beside others until `all_ended`.
running=()
beside() {
    step "$@" &
    running+=($!)
}

all_ended() {
    local pid
    for pid in "${running[@]}"; do
        wait "$pid" || failed=1
    done
    running=()
}

checks=("$python" -m pytest -q -p no:cacheprovider -o addopts=)
kernels=(tests/engine/{cuda_checks,cuda_in_place,looks_checks,draws_checks,crop_checks,extend_checks}.py)
sanitized="degenerate_batches or borders_of_tiles or any_layout or many_slots or priorities or crops or one_of_both or no_images"

right() {
    local file
    for file in "${kernels[@]}"; do # they compile most of the time, each on one core
        beside "right-$(basename "$file" .py)" 230 "${checks[@]}" "$file"
    done
    beside right-backends 230 env SEGPASTE_TEST_DEVICE=cuda "${checks[@]}" \
        tests/engine/test_backends.py -k "TestAgree or TestForeignSource"
    beside right-batches 230 "$python" scripts/hostile_batches.py --num 2000 \
        --backend triton --seconds 150 --pasted 8 # each new set of options is compiled first
    all_ended
    step right-stress 110 "$python" scripts/stress_kernels.py --seconds 60 --out "$out/stress.json" # alone, for its timing
    beside right-graphs 230 "$python" scripts/check_graphs.py --out "$out/graphs.json"
    beside right-ranks 150 "$python" scripts/check_ranks.py
    sanitize memcheck
    sanitize racecheck
    all_ended
}

# sanitize TOOL: run some of the kernels under compute-sanitizer; that it is missing is a failure.
sanitize() {
    local sanitizer=${COMPUTE_SANITIZER:-compute-sanitizer}
    command -v "$sanitizer" >/dev/null || sanitizer=${CUDA_HOME:-/usr/local/cuda}/bin/$sanitizer
    if ! command -v "$sanitizer" >/dev/null; then
        ended "right-$1" "FAILED, found no compute-sanitizer; install that of the CUDA toolkit, or set COMPUTE_SANITIZER to it" ""
        failed=1
        return
    fi
    beside "right-$1" 230 env PYTORCH_NO_CUDA_MEMORY_CACHING=1 \
        "$sanitizer" --tool "$1" --error-exitcode 9 "${checks[@]}" "${kernels[@]}" -k "$sanitized"
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
    start=$SECONDS
    deadline=$((start + seconds))
    "$part"
    say "$part: $((SECONDS - start)) s"
done
say "$(wc -l <"$out/ran.txt") steps, $(grep -vc $'\tfine, ' "$out/ran.txt") of them failed, see $out/ran.txt"
exit "$failed"
