#!/usr/bin/env bash
# A second local Ray of a process, with another RAY_AUTH_MODE, kills each actor and says that nobody refers to it any more.
#
# Most expect: `ray.init()` reads its settings from the environment each time, or says that one cannot change. What
# happens: `ray.init()` with no mode given takes "token", writes it into the environment of this process and keeps it. If
# RAY_AUTH_MODE is set to "disabled" afterwards and Ray is started again, the new cluster has no token, the process still
# asks for one, and the cluster takes the refused call for a driver that died: each actor ends before it starts with "all
# references to the actor were removed", although the program holds them. Ray Data fails in the same way. It hurts where
# one process starts Ray twice: tests, notebooks, sweeps.
#
# The script starts Ray twice in one process, and an actor each time.
# It exits with 1 if the second actor answers, which means that the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q ray==2.60.0
HOME="$folder" RAY_USAGE_STATS_ENABLED=0 "$folder/env/bin/python" - <<'PYTHON'
import os

import ray


@ray.remote
class Counter:
    def count(self):
        return 1


def one_cluster():
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    counter = Counter.remote()
    try:
        answer = ray.get(counter.count.remote(), timeout=120)
    except ray.exceptions.RayError as error:
        answer = f"{type(error).__name__}, {str(error).splitlines()[-2].strip()}"
    print(f"ray {ray.__version__}, RAY_AUTH_MODE is {os.environ.get('RAY_AUTH_MODE')}: {answer}")
    ray.shutdown()
    return answer


os.environ.pop("RAY_AUTH_MODE", None)
first = one_cluster()
os.environ["RAY_AUTH_MODE"] = "disabled"
second = one_cluster()
raise SystemExit(0 if first == 1 and "ActorDiedError" in str(second) else 1)
PYTHON
