"""`segpaste doctor`: report installed packages, and the backend that runs here and why, for bug reports."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from segpaste._printable import printable
from segpaste._version import __version__

SCHEMA_VERSION = 1

_EXAMPLE = """\
The exit code is 1 if something is broken, else 0. Nothing is sent or downloaded. Paste the whole output into a bug
report; your home folder is shown as ~.

examples:
  segpaste doctor
  segpaste doctor --json
"""


def add_to(commands: Any, summary: str) -> None:
    """Add the command to the parser, with a summary of a few words."""
    text = "Report installed packages and the backend that runs here and why, and compare backends on a small paste."
    parser = commands.add_parser("doctor", help=summary, description=text, example=_EXAMPLE)
    parser.usage = "segpaste doctor [options]"
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Examine and print; exit with 1 if something is broken."""
    document = examine()
    text = json.dumps(document, indent=2) if args.json else "\n".join(lines(document))
    print(text.replace(str(Path.home()), "~") if str(Path.home()) != "/" else text)
    if not document["healthy"]:
        raise SystemExit(1)


def examine() -> dict[str, Any]:
    """Return all facts; ``problems`` lists defects (``error``) and advice (``remark``)."""
    from segpaste.extras import packages
    from segpaste.workspace.machine import machine, variables

    problems: list[dict[str, str]] = []
    found: dict[str, Any] = {
        "schema": SCHEMA_VERSION,
        "healthy": True,
        "problems": problems,
        "segpaste": {"version": __version__, "folder": str(Path(__file__).parents[1])},
        "python": {"version": platform.python_version(), "executable": sys.executable},
        "machine": machine(problems),
        "packages": packages(problems),
    }
    if not any(problem["severity"] == "error" for problem in problems):  # the next checks import them
        from segpaste.augmentation.self_test import self_test
        from segpaste.bank.storage.block_cache import cache_state
        from segpaste.datasets.scenes import SceneConfig, scene_batch
        from segpaste.engine.backend_state import backends

        found["variables"] = variables(problems)
        found["backends"] = backends(problems)
        found["cache"] = cache_state(problems)
        found["self_test"] = self_test(scene_batch(3, 12, SceneConfig(height=64, width=80)), problems)
    return found | {"healthy": not any(problem["severity"] == "error" for problem in problems)}


def lines(found: dict[str, Any]) -> Iterator[str]:
    """Yield the printed lines about the facts."""
    python, package = found["python"], found["segpaste"]
    yield f"segpaste {package['version']} in {package['folder']}"
    yield f"Python {python['version']}, {python['executable']}"
    yield from _machine_lines(found["machine"])
    yield "\npackages"
    for row in found["packages"]:
        state = "" if row["state"] == "ok" else f"  {row['state']}"
        hint = "" if row["hint"] is None else f": {row['hint']}"
        yield f"  {row['name']:<26} {row['version'] or '-':<16} {row['role']}{state}{hint}"
    if "backends" in found:
        yield from _backend_lines(found["backends"])
        yield "\nself-test"
        for row in found["self_test"]:
            seconds = "" if row["seconds"] is None else f" in {row['seconds'] * 1000:.0f} ms"
            reason = f": {row['reason']}" if row["reason"] else seconds
            yield f"  {row['backend']:<12} {row['device']:<5} {row['state']}{printable(reason)}"
        given = [f"  {name}={printable(value)}" for name, value in found["variables"].items()]
        yield from ["\nvariables", *(given or ["  none"])]
        if place := found["cache"]:
            sizes = f"at most {_size(place['max_bytes'])}, {_size(place['free_bytes'])} free"
            yield f"\ncache      {place['folder']}, {sizes}"
    for severity in ("error", "remark"):
        messages = [problem["message"] for problem in found["problems"] if problem["severity"] == severity]
        yield from [f"\n{severity}s", *(f"  {printable(message)}" for message in messages)] if messages else []
    yield f"\n{'all is well' if found['healthy'] else 'something is broken, see the errors above'}"


def _machine_lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"{found['system']}, {found['processor']}"
    limit = found["cgroup_cores"]
    usable = f", {found['usable_cores']} usable" if found["usable_cores"] is not None else ""
    yield f"cores      {found['cores']}{usable}" + (
        "" if limit is None else f", limited to {limit:g} by a control group"
    )
    limit = found["cgroup_memory_bytes"]
    of_group = "" if limit is None else f", limited to {_size(limit)} by a control group"
    yield f"memory     {_size(found['memory_bytes'])}, {_size(found['available_bytes'])} available{of_group}"
    yield f"shared     {_size(found['shared_memory_bytes'])} of /dev/shm; {found['open_files']} open files"


def _backend_lines(found: dict[str, Any]) -> Iterator[str]:
    native, cuda = found["native"], found["cuda"]
    yield "\nbackends"
    for device, name in found["chosen"].items():
        asked = "asked for by SEGPASTE_BACKEND" if found["asked_for"] else f"the fastest that can run on {device}"
        yield f"  {device:<12} {name or 'none'}: {asked}"
    threads = (
        f"{found['torch_threads']} threads" if found["runs_in_parallel"] else "one thread, no OpenMP of torch found"
    )
    state = native["error"] or f"{native['file']}, code for {native['level']}, {threads}"
    yield f"  native       {printable(state)}"
    devices = ", ".join(f"{device['name']} ({_size(device['bytes'])})" for device in cuda["devices"])
    yield f"  CUDA         torch is built for {cuda['built_for'] or 'none'}; {devices or 'no device'}"
    yield f"  Triton       {printable(cuda['triton_error'] or 'can be imported')}"


def _size(num_bytes: int | None) -> str:
    return "unknown" if num_bytes is None else f"{num_bytes / (1 << 30):.1f} GiB"
