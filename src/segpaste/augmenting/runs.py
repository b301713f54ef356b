"""Run that makes an augmented dataset: its steps, alone or as one of several shards, then the files over all."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from segpaste._printable import printable
from segpaste._reprs import counted
from segpaste._version import __version__
from segpaste.augmenting.layouts import OtherSplits, writer_of, written_splits, yaml_keys
from segpaste.augmenting.options import AugmentError, AugmentOptions, Progress, option
from segpaste.augmenting.photos import RECORDS
from segpaste.augmenting.report import draw, report_item, write_pages
from segpaste.augmenting.steps import StepMaker
from segpaste.augmenting.summary import AugmentSummary
from segpaste.datasets.conversion.starting import start_file
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.formats.carried import without_counts
from segpaste.datasets.formats.references import Copy
from segpaste.datasets.writers.counterparts import WrittenCounterparts
from segpaste.datasets.writers.dataset_writer import DatasetWriter, finish
from segpaste.datasets.writers.format import Losses, SampleRows
from segpaste.datasets.writers.guard import Guard
from segpaste.datasets.writers.layouts import FOLDERS, WrittenLayout
from segpaste.datasets.writers.readback import Verified, WrittenView
from segpaste.workspace import (
    Fingerprint,
    Run,
    Workspace,
    adopt_step,
    lock_folder,
    naming,
    read_fingerprint,
    write_whole,
)
from segpaste.workspace.engines import make_parts
from segpaste.workspace.shards import Shard, assembling, remove_shards, shard_run, shard_runs


class RunLog:
    """A log that all runs of one output append to: lines with the time. A run that finishes nothing leaves no line.

    Args:
        path: the file; its folder must exist when the first line is written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._waiting: list[str] = []
        self._is_open = False

    def say(self, text: str) -> None:
        """Add a line; it is written once something is finished."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        self._waiting += [f"{stamp} {printable(line)}\n" for line in text.splitlines()]
        if self._is_open:
            self.open()

    def open(self) -> None:
        """Write the lines collected so far, and every later line at once; called after the first finished step."""
        self._is_open = True
        if self._waiting:
            with self.path.open("a", encoding="utf-8") as file:
                file.writelines(self._waiting)
            self._waiting.clear()

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Add a line if the block ends with an error or an interrupt."""
        try:
            yield
        except BaseException as error:
            self.say(f"stopped: {error or type(error).__name__}")
            raise


class AugmentRun:
    """A run.

    Args:
        options: options of the dataset.
        space: workspace of the dataset.
        maker: makes its images.
        fingerprint: everything that the images depend on.
        progress: called when images are finished.

    Attributes:
        log: log of the run.
        num_made: number of images that were made so far.
    """

    def __init__(
        self,
        options: AugmentOptions,
        space: Workspace,
        maker: StepMaker,
        fingerprint: Fingerprint,
        progress: Progress,
    ) -> None:
        self.options, self.space, self.maker = options, space, maker
        self.fingerprint, self.progress = fingerprint, progress
        self.workers = max(1, options.workers)
        self.num_made = 0
        self.log = RunLog(space.out.with_name(space.out.name + ".log"))

    def make_shard(self, stack: ExitStack) -> AugmentSummary | None:
        """Make the missing steps of the shard that was asked for, if any.

        Returns:
            None if this process then assembles the dataset, for which it gets a lock of the stack; else a summary that
            says who does.
        """
        if self.options.shard is None:
            return None
        out, maker, shard = self.space.out, self.maker, Shard(*self.options.shard)
        run = shard_run(out, shard, AugmentError)
        with run.claim(self.fingerprint), naming(run.folder):
            num = sum(len(maker.positions(step)) for step in shard.steps(maker.num_steps))
            self.make(_in_folder(maker, run), _missing_steps(maker, run, shard), num)
        if left := self._missing_shards(shard.total):
            why = f"missing: {', '.join(map(str, left))}"
        elif not stack.enter_context(assembling(out)):
            why = "another process assembles them"
        else:
            return None
        return AugmentSummary(out, "waiting", why, num_made=self.num_made, config=maker.paster.config)

    def adopt_shards(self) -> None:
        """Take over the finished steps of all shards.

        Raises:
            AugmentError: a shard is of another run, or is being made.
        """
        maker, num = self.maker, 0
        with ExitStack() as locks:
            for run in shard_runs(self.space.out, AugmentError):
                folder = run.folder
                if (lock := lock_folder(folder)) is None:
                    raise AugmentError(f"{folder}: another process is writing this shard; wait until it ends")
                locks.callback(os.close, lock)
                there = read_fingerprint(folder)
                if there is None or self.fingerprint.changes(there):
                    raise AugmentError(
                        f"{folder}: expected a shard of the same command, got one of another command; delete the folder"
                    )
                for step in range(maker.num_steps):
                    if run.notes.has(step) and not maker.is_done(step):
                        _adopt(step, _in_folder(maker, run), maker)
                        num += 1
        if num:
            self.log.say(f"took over {num:,} steps of shards")

    def make(self, maker: StepMaker, missing: Sequence[int], num: int) -> None:
        """Make the missing steps of ``num`` images."""
        if not missing:
            return
        num_left = sum(len(maker.positions(step)) for step in missing)
        self.log.say(f"making {num_left:,} of {counted(num, 'image')} with {counted(self.workers, 'worker')}")
        num_done = num - num_left
        self.progress("image", num_done, num)
        for step in make_parts(maker, missing, self.workers, self.options.engine, AugmentError):
            self.log.open()
            positions = maker.positions(step)
            num_done += len(positions)
            self.progress("image", num_done, num)
            self.log.say(f"made images {positions[0] + 1} to {positions[-1] + 1}")
        self.num_made += num_left

    def finish(self, made: Mapping[str, Any], others: OtherSplits, guard: Guard) -> AugmentSummary:
        """Write the files over all images, read everything again, and publish the dataset.

        Args:
            made: entry ``segpaste`` of the tables' info: how this dataset was made.
            others: the splits that are copied.
            guard: compares the written files with the ledger.
        """
        space = self.space
        made_of = counterparts(self.maker)
        summary, writer, tables = assemble(self.maker, made, self.options.gallery, others, made_of)
        others.write(space.files, self.progress)
        if self.maker.tool is not None:
            splits = written_splits(self.maker.paster.inputs, self.maker.layout, others)
            if (file := start_file(self.maker.tool, splits)) is not None:
                write_whole(space.files / file[0], file[1])
        expected = lambda: made_of.expected(self.maker.expected)  # noqa: E731
        summary.verified = self.verify(guard, others, writer.views(expected, tables, others.names))
        space.publish()
        remove_shards(space.out)
        summary.out, summary.num_made, summary.workers = space.out, self.num_made, self.workers
        summary.copied, summary.num_copied = others.names, len(others.copies)
        return summary

    def verify(self, guard: Guard, others: OtherSplits, views: Iterable[WrittenView]) -> Verified:
        """Read the written files again and compare them with the ledger."""
        maker, files = self.maker, self.space.files
        copies = {files / target: source for target, source in others.copies.items()}
        of_note = lambda note: [item["ledger"]["file"] for item in note]  # noqa: E731
        done = guard.verified(files, views, range(maker.num_steps), of_note, copies)
        if done.images:
            self.log.say(f"verified {done}")
        return done

    def _missing_shards(self, total: int) -> list[int]:
        """Return the numbers of the shards that are not finished."""
        found = []
        for shard in (Shard(number, total) for number in range(1, total + 1)):
            run = shard_run(self.space.out, shard, AugmentError)
            there = read_fingerprint(run.folder)
            is_ours = there is None or not self.fingerprint.changes(there)
            if not is_ours or _missing_steps(self.maker, run, shard):
                found.append(shard.number)
        return found


def counterparts(maker: StepMaker) -> WrittenCounterparts:
    """Return what the images and annotations of the dataset became; the steps of the maker are all finished."""
    rows = lambda: (SampleRows(**item["rows"]) for item in maker.items())  # noqa: E731
    return WrittenCounterparts(maker.paster.inputs.annotated, _copies(maker), rows)


def assemble(
    maker: StepMaker, made: Mapping[str, Any], gallery: int, splits: OtherSplits, made_of: WrittenCounterparts
) -> tuple[AugmentSummary, DatasetWriter, JsonRow]:
    """Write the files that cover all images; return their summary, their writer, and the other tables.

    Args:
        maker: the step maker, whose steps are all finished.
        made: entry ``segpaste`` of the tables' info: how this dataset was made.
        gallery: number of images to draw.
        splits: the splits that are copied.
        made_of: counterparts of the images and annotations of the dataset.
    """
    paster, files = maker.paster, maker.files
    summary = AugmentSummary(config=paster.config, has_jitter=paster.reader.jitter is not None)
    _remove_surplus(maker)
    lost = Losses()
    for item in maker.items():
        if item["shown"] is None:
            summary.num_originals += 1
        else:
            summary.add(item["shown"])
        lost.update(item.get("losses", {}))
        summary.unreadable |= item["unreadable"]
    name = paster.inputs.name
    said = {**made, "files": {n: text for n, text in FOLDERS.items() if (files / n).is_dir()}, **maker.layout.note()}
    info: dict[str, Any] = {"description": f"{name}, augmented by copy-paste", "version": __version__, "segpaste": said}
    others, summary.left_out = made_of.tables()
    categories = made_of.categories(without_counts(paster.inputs.categories), summary.left_out)
    source_yaml, keys = yaml_keys(paster.inputs, maker.layout)
    summary.left_out += lost + keys + made_of.losses + paster.inputs.unread + splits.losses
    if summary.left_out:
        said["left_out"] = dict(summary.left_out)
    if source_info := others.pop("info", None):
        info["source_info"] = source_info
    writer = writer_of(files, paster.inputs, maker.layout, source_yaml)
    tables = {"info": info, **others}
    finish([writer], [(tables, categories, made_of.rows)], Losses(), splits.names)
    write_whole(files / RECORDS, (f"{item['record']}\n".encode() for item in maker.items() if item["record"]))
    drawn = []
    for position in range(min(gallery, maker.num)):
        drawn.append(draw(paster.image(position), paster))
    pictures = chain(drawn, repeat(()))
    shown = (item["shown"] for item in maker.items() if item["shown"] is not None)
    pages = (report_item(own, its) for own, its in zip(shown, pictures, strict=False))
    write_pages(files, pages, len(drawn), summary, f"segpaste augment {name}")
    return summary, writer, tables


def run_digest(made: Mapping[str, Any], num: int) -> str:
    """Return the digest of a call that makes ``num`` images."""
    return hashlib.sha256(json.dumps({**made, "--num": num}, sort_keys=True).encode()).hexdigest()


def is_finished(
    options: AugmentOptions, out: Path, layout: WrittenLayout, made: Mapping[str, Any], num_originals: int = 0
) -> bool:
    """Return whether a folder holds the finished dataset of a call.

    Args:
        options: options of the call.
        out: the folder.
        layout: layout of the dataset.
        made: everything that an image depends on.
        num_originals: number of kept images.

    Raises:
        AugmentError: the dataset has another number of images, or some are missing.
    """
    if (num := _finished_num(out, layout, made)) is None:
        return False
    if num != options.num:
        raise AugmentError(
            f"{option('num')}: expected {num}, the number of images of the finished {options.out}, got {options.num}; "
            f"only an unfinished run resumes with another {option('num')}: remove the folder, or give another "
            f"{option('out')}"
        )
    folder = out / layout.images
    there = {Path(entry.name).stem for entry in os.scandir(folder)} if folder.is_dir() else set()
    total = num + num_originals
    names = (f"{number:06d}" for number in range(1, total + 1))
    if missing := [name for name in names if name not in there]:
        raise AugmentError(
            f"{options.out}: expected the {counted(total, 'image')} of this finished run, {len(missing):,} missing, "
            f"such as {layout.images}/{missing[0]}; remove the folder and run again"
        )
    return True


def _finished_num(out: Path, layout: WrittenLayout, made: Mapping[str, Any]) -> int | None:
    """Return the number of images of the finished dataset in a folder; None if it is not a dataset of this call."""
    path = out / layout.tables
    if not path.is_file():
        return None
    with path.open(encoding="utf-8") as file, suppress(ValueError, KeyError, TypeError, AttributeError):
        written = json.loads(file.readline().rstrip(",\n") + "}")["info"]["segpaste"]  # as `write_tables` does
        found = re.search(r" --num (\d+)\b", written["command"])
        if found is not None and written.get("run") == run_digest(made, int(found[1])):
            return int(found[1])
    return None


def _copies(maker: StepMaker) -> list[Copy]:
    """Return the written images of the dataset, without those made of backgrounds."""
    inputs = maker.paster.inputs
    own = inputs.annotated
    names = None if own is inputs.photos else {own.file_name(index) for index in range(len(own))}
    images = ((image := item["rows"]["image"], image["segpaste"]) for item in maker.items())
    return [
        Copy(origin["source_image_id"], image["id"], image["file_name"], is_original=origin.get("original", False))
        for image, origin in images
        if names is None or origin["source_file_name"] in names
    ]


def _remove_surplus(maker: StepMaker) -> None:
    """Remove the files of surplus images that an earlier run with a larger number left."""
    for folder in (*maker.layout.folders, *FOLDERS):
        for path in (maker.files / folder).glob("*"):
            if path.stem.isdigit() and int(path.stem) > maker.num_files:
                path.unlink()


def _in_folder(maker: StepMaker, run: Run) -> StepMaker:
    """Return the maker of the steps of a shard."""
    return replace(maker, files=run.folder / "files", notes=run.notes)


def _missing_steps(maker: StepMaker, run: Run, shard: Shard) -> list[int]:
    """Return the steps of a shard that neither it nor the whole run has finished."""
    own = _in_folder(maker, run)
    return [step for step in shard.steps(maker.num_steps) if not own.is_done(step) and not maker.is_done(step)]


def _adopt(step: int, source: StepMaker, target: StepMaker) -> None:
    names = [name for item in source.notes.read(step) for name in item["files"]]
    adopt_step(step, source.notes, target.notes, [(source.files / name, target.files / name) for name in names])
