"""`segpaste bank info` and `segpaste bank verify`: describe and check a bank, without torch."""

from __future__ import annotations

import argparse
import json
from typing import Any

from segpaste._printable import printable
from segpaste.bank import StoredBank, open_bank
from segpaste.bank.schema.meta import META


def info(args: argparse.Namespace) -> None:
    """Print the contents of a bank."""
    with open_bank(args.bank) as bank:
        facts = facts_of(bank)
    if args.json:
        print(json.dumps(facts, indent=2))
        return
    h, w = facts["crop_size"]
    print(f"bank     {facts['where']}")
    print(f"format   {facts['format']}, version {facts['format_version']}, by segpaste {facts['segpaste_version']}")
    print(f"version  {facts['version']}")
    print(f"crops    {facts['num_crops']:,} of {h} x {w} pixels, {facts['num_bytes']:,} bytes in total")
    print(f"columns  {', '.join(facts['columns'])}" + (", depth in metres" if facts["metric_depth"] else ""))
    for name, size in facts["files"].items():
        print(f"  {name:<32} {size:>14,} bytes")
    print(f"classes  {len(facts['classes'])}")
    for row in facts["classes"]:
        share = row["crops"] / max(1, facts["num_crops"])
        print(f"  {row['class_id']:>5} {printable(row['name']):<26} {row['crops']:>14,} {share:>8.2%}")


def facts_of(bank: StoredBank) -> dict[str, Any]:
    """Return the printed facts about a bank, as JSON."""
    meta = bank.meta
    files = {name: entry.size for name, entry in meta.files.items()}
    files[META] = bank.folder.size(META) or 0
    return {
        "where": bank.where,
        "format": meta.format,
        "format_version": meta.format_version,
        "segpaste_version": meta.segpaste_version,
        "version": bank.version,
        "num_crops": len(bank),
        "crop_size": list(bank.crop_size),
        "num_bytes": sum(files.values()),
        "columns": [column.name for column in bank.layout.columns],
        "metric_depth": bank.metric_depth,
        "build_seed": meta.build_seed,
        "built_from": dict(meta.built_from),
        "files": files,
        "classes": [
            {"class_id": i, "name": name, "crops": num}
            for i, (name, num) in enumerate(zip(bank.class_names, bank.class_frequencies, strict=True))
        ],
    }


def verify(args: argparse.Namespace) -> None:
    """Compare every file with its size and digest in the bank's meta."""
    with open_bank(args.bank) as bank:
        bank.verify()
        num_bytes = sum(entry.size for entry in bank.meta.files.values())
        print(
            f"sound    {bank.where}: {META} matches its hash, and {len(bank.meta.files)} files, {num_bytes:,} bytes, "
            f"{len(bank):,} crops, match their size and SHA-256"
        )
