"""Records of runs that resume: begun by this version, or by an earlier one, whose files are kept."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import make_kept
from golden_digests import KEPT, Record, digest_of, tree

from segpaste import cli, open_bank
from segpaste.replay import read_records

DATASET = str(KEPT / "dataset")
BANK = ["--bank", str(KEPT / "bank")]
RUNS: dict[str, list[str]] = {
    "images": [],
    "objects": ["placement.grouping=instance", "--balance", "class_uniform", "--size", "40"],
    "crops": [*BANK, "--balance", "tempered", "--temperature", "0.3", "--layout", "yolo"],
    "preset": ["--preset", "simple_copy_paste", "--size", "48x40", "--layout", "voc", "harmonize.prob=0.5"],
}
PATHS = ("folder", "--images", "--panoptic-dir", "--backgrounds")


def resumed(scratch: Path) -> Iterator[Record]:
    """Record the options that unfinished runs note, and what they become; a shard is a run that is half finished."""
    for name, words in RUNS.items():
        out = scratch / name
        given = ["augment", DATASET, *words, "--out", str(out), "--num", "9", "--gallery", "0", "min_area_px=4"]
        code = cli.main([*given, "--shard", "1/2"])
        noted = json.loads((scratch / f"{name}.shards" / "001-of-002" / "run.json").read_bytes())
        options = {key: json.dumps(value) for key, value in noted.items() if key not in (*PATHS, "segpaste")}
        yield f"resumed {name}, noted", {"exit": str(code), **options}
        code = cli.main(given)
        yield f"resumed {name}", {"exit": str(code), **tree(out, scratch, KEPT)}


def kept(scratch: Path) -> Iterator[Record]:
    """Record what becomes of files of an earlier version: a bank, replay records, and unfinished runs, which resume.

    The run of then has the image format of then, which is no longer the default. Its replay records lack later keys;
    they are compared as they are read, with the values of these.
    """
    bank = open_bank(KEPT / "bank")
    yield "kept bank", {"crops": digest_of([bank[index] for index in range(len(bank))]), "version": bank.version}
    for name, words in {"replay.jsonl": [], "replay_of_bank.jsonl": BANK}.items():
        out = scratch / name
        code = cli.main(["replay", str(KEPT / name), "--dataset", DATASET, *words, "--out", str(out)])
        yield f"kept {name}", {"exit": str(code), **tree(out, scratch, KEPT)}
    commands = {
        "augmented": ["augment", DATASET, *make_kept.AUGMENT],
        "converted": ["convert", DATASET, "--to", "yolo"],
    }
    for name, words in commands.items():
        for way in ("resumed", "uninterrupted"):
            out = scratch / f"{name}-{way}"
            if way == "resumed":
                shutil.copytree(KEPT / f"{name}.partial", out.with_name(f"{out.name}.partial"))
            given = ["--format", "png"] if (name, way) == ("augmented", "uninterrupted") else []
            code = cli.main([*words, *given, "--out", str(out)])
            if (records := out / "replay.jsonl").is_file():
                records.write_text("".join(f"{record.to_json()}\n" for record in read_records(records)))
            yield f"kept {name}, {way}", {"exit": str(code), **tree(out, scratch, KEPT)}
