"""`segpaste tune` with a trainer in a process of its own: answers, restarts, failures, changes, other formats."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_world import write_instances, write_json, write_panoptic

from fresh_process import start_command
from on_disk import noise, rectangle, runs, tree
from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.cli import main
from segpaste.datasets import open_dataset
from segpaste.tuning.setup import TuneOptions, open_tuning
from segpaste.tuning.trainer import TuningError
from yolo_files import write_yolo

NUM_IMAGES = 16
TRAINER = """
import json, random, sys
import yaml

config, balance, train, val, seed, out = sys.argv[1:]
with open("calls.txt", "a") as file:
    file.write(f"{out}\\n")
tables = [json.load(open(path)) for path in (train, val)]
names = {row["id"]: row["name"] for row in tables[0]["categories"]}
images = [{row["id"] for row in table["images"]} for table in tables]
assert not images[0] & images[1]
assert all({row["image_id"] for row in table["annotations"]} <= ids for table, ids in zip(tables, images))
shown = {row["category_id"] for row in tables[1]["annotations"]}
gain = 0.0
if config != "none":
    paste = yaml.safe_load(open(config))
    gain = EFFECT * paste["placement"]["paste_prob"] * (1 + (balance == "class_uniform"))
else:
    assert balance == "none"
noise = random.Random(seed).gauss(0, 0.1) + random.Random(seed + config[-4:]).gauss(0, 0.001)
scores = {name: 0.5 + noise + gain * key / 90 if key in shown else None for key, name in names.items()}
json.dump({"scores": scores}, open(out, "w"))
"""
"""A trainer that checks its files; its effect grows with the share, and for class_uniform."""


def write_dataset(folder: Path, num: int = NUM_IMAGES) -> Path:
    """Write images with one or two rectangles each, and return the annotation file."""
    (folder / "photos").mkdir(parents=True)
    images, annotations = [], []
    from PIL import Image

    for i in range(num):
        Image.fromarray(noise((24, 32), i)).save(folder / "photos" / f"{i}.png")
        images.append({"id": i, "file_name": f"{i}.png", "height": 24, "width": 32})
        for j in range(1 + i % 2):
            mask = rectangle((24, 32), 2 + j, 3 + 9 * j, 9 + j, 11 + 9 * j)
            row = {"id": 2 * i + j, "image_id": i, "category_id": (3, 90)[j], "segmentation": runs(mask)}
            annotations.append({**row, "iscrowd": 0, "bbox": [3 + 9 * j, 2 + j, 8, 7], "area": 56})
    return write_json(folder, images, annotations, [{"id": 3, "name": "cat"}, {"id": 90, "name": "tooth brush"}])


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a dataset and a trainer, which is the current one."""
    write_dataset(tmp_path)
    write_trainer(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Such a folder with a finished tuning, and what that printed."""
    folder = tmp_path_factory.mktemp("finished")
    write_dataset(folder)
    write_trainer(folder)
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main(words(*SHORT)) == 0
    (folder / "printed.txt").write_text(printed.getvalue())
    return folder


@pytest.fixture
def tuned(finished: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the finished tuning, which is the current one; whoever changes it restores it."""
    monkeypatch.chdir(finished)
    return finished


def write_trainer(folder: Path, effect: float = 0.05, **replaced: str) -> None:
    text = TRAINER.replace("EFFECT", str(effect))
    for before, after in replaced.items():
        text = text.replace(before, after)
    (folder / "train.py").write_text(text)


def words(*more: str, command: str = "{config} {balance} {train} {val} {seed} {out}") -> list[str]:
    trainer = f"{sys.executable} train.py {command}"
    return ["tune", "labels.json", "--images", "photos", "--out", "tuning", "--trainer", trainer, *more]


SHORT = ("--balances", "natural,class_uniform", "--shares", "0.5", "--counts", "2", "--placements", "uniform")
"""Two arms: 6 runs in the search, 16 in the final comparison."""


def num_calls() -> int:
    return len(Path("calls.txt").read_text().splitlines()) if Path("calls.txt").exists() else 0


def read(path: str) -> Any:
    return json.loads(Path(path).read_text())


def refused(capsys: pytest.CaptureFixture[str], *more: str, **options: Any) -> str:
    assert main(words(*more, **options)) == 2
    err = capsys.readouterr().err
    assert err.splitlines()[-1].startswith("segpaste: error: ")
    return err


class TestAnswers:
    def test_pasting_helps(self, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(words("placement.scale_range=[0.8,1.25]")) == 0
        out = capsys.readouterr().out
        assert "total    36 runs" in out
        assert num_calls() == 36
        assert "chosen: class_uniform, share 1, 4 objects, least_covering" in out
        assert "paste with this config (gain +0.05" in out
        assert 'source_pool=pool, balance="class_uniform"), where pool is the source_pool of your trainer' in out
        config = BatchCopyPasteConfig.load("tuning/tuned.yaml")
        assert (config.placement.paste_prob, config.source.crops_per_target) == (1.0, 4)
        assert config.placement.scale_range == (0.8, 1.25)
        found = read("tuning/tune.json")
        assert found["answer"] == "paste with this config"
        assert found["chosen"]["balance"] == "class_uniform"
        assert found["classes"]["tooth brush"]["verdict"] == "higher"
        assert found["classes"]["tooth brush"]["gain"] == pytest.approx(0.1, abs=0.002)
        assert found["classes"]["cat"]["gain"] == pytest.approx(0.1 * 3 / 90, abs=0.002)
        assert len(found["runs"]) == 36
        assert all(len(run["command"]) == 8 for run in found["runs"])

    def test_pasting_harms(self, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_trainer(world, -0.05)
        assert main(words(*SHORT)) == 0
        out = capsys.readouterr().out
        assert "do not paste (gain -0.0" in out
        assert "next" not in out
        assert BatchCopyPasteConfig.load("tuning/tuned.yaml").placement.paste_prob == 0
        assert read("tuning/tune.json")["answer"] == "do not paste"

    def test_pasting_does_nothing(self, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_trainer(world, 0.0)
        assert main(words(*SHORT)) == 0
        assert "undecided: no gain shown" in capsys.readouterr().out
        assert BatchCopyPasteConfig.load("tuning/tuned.yaml").placement.paste_prob == 0

    def test_intervals_follow_from_the_files(self, tuned: Path) -> None:
        """The corrected resampled t test, computed from the splits and the scores as they were written."""
        stats = pytest.importorskip("scipy.stats")
        found = read("tuning/tune.json")
        runs = [run for run in found["runs"] if run["part"] == "final"]
        gains = np.zeros((8, 2))  # of cat and tooth brush
        weights = np.zeros((3, 8, NUM_IMAGES))  # of the images in the scores of cat, tooth brush, and their mean
        for run in runs:
            sign = -1 if run["arm"] is None else 1
            gains[run["seed"] - 1] += [sign * run["scores"][name] for name in ("cat", "tooth brush")]
        for i in range(8):
            rows = read(f"tuning/splits/final-{i + 1}/val.json")["annotations"]
            for j in range(2):
                shown = sorted({row["image_id"] for row in rows if row["category_id"] == (3, 90)[j]})
                weights[j, i, shown] = 1 / len(shown)
        weights[2] = (weights[0] + weights[1]) / 2
        comparisons = [found["classes"]["cat"], found["classes"]["tooth brush"], found["mean"]]
        for comparison, values, of_images in zip(comparisons, [*gains.T, gains.mean(1)], weights, strict=True):
            shared = of_images @ of_images.T
            rho = (shared.sum() - shared.trace()) / 7 / shared.trace()
            centred = (np.eye(8) - 1 / 8) @ shared
            freedom = int(centred.trace() ** 2 / (centred @ centred).trace())
            assert 1 < freedom < 7
            error = math.sqrt((1 / 8 + rho / (1 - rho)) * values.var(ddof=1))
            half = stats.t.ppf(0.975, freedom) * error
            assert comparison["interval"] == pytest.approx([values.mean() - half, values.mean() + half])
        assert found["mean"]["p"] == pytest.approx(2 * stats.t.sf(abs(gains.mean()) / error, freedom))

    def test_the_config_is_one_of_augment(self, tuned: Path, tmp_path: Path) -> None:
        dataset, bank, out = ["labels.json", "--images", "photos"], str(tmp_path / "bank"), str(tmp_path / "augmented")
        assert main(["bank", "build", *dataset, "--out", bank, "--min-area", "1"]) == 0
        options = ["--bank", bank, "--config", "tuning/tuned.yaml", "--balance", "class_uniform", "--num", "2"]
        assert main(["augment", *dataset, "--out", out, *options]) in (0, 1)
        assert Path(out).is_dir()

    def test_config_of_every_run(self, tuned: Path) -> None:
        configs = [BatchCopyPasteConfig.load(path) for path in Path("tuning/runs").glob("*/config.yaml")]
        assert len(configs) == 2 * 2 + 8
        assert len(set(configs)) == 1  # arms differ in their balance alone
        assert configs[0].source.kind == "bank"


class TestRestart:
    def test_finished_runs_are_not_run_again(self, tuned: Path, capsys: pytest.CaptureFixture[str]) -> None:
        before, first = tree(Path("tuning")), Path("printed.txt").read_text()
        assert main(words(*SHORT)) == 0
        assert num_calls() == 22
        assert tree(Path("tuning")) == before
        assert first.endswith(capsys.readouterr().out.partition("total    22 runs\n")[2])

    def test_a_failing_trainer_loses_nothing(
        self, world: Path, finished: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The result is the same as without the failure, but for the seconds."""
        Path("stop").touch()
        stop = "import os, yaml\nif sys.argv[5] == '3' and os.path.exists('stop'): print('no memory'), sys.exit(7)"
        write_trainer(world, **{"import yaml": stop})
        err = refused(capsys, *SHORT)
        assert "  | no memory" in err
        assert "final seed 3: no paste: expected the trainer to end with exit code 0, got exit code 7" in err
        assert "the same command resumes from there" in err
        assert not Path("tuning/tuned.yaml").exists()
        done = num_calls()
        assert done == 6 + 4
        Path("stop").unlink()
        assert main(words(*SHORT)) == 0
        assert num_calls() == 22
        whole, again = read(str(finished / "tuning/tune.json")), read("tuning/tune.json")
        for key in ("answer", "chosen", "mean", "classes", "search"):
            assert again[key] == whole[key]

    def test_a_trainer_that_fails_at_once_leaves_nothing(self, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_trainer(world, **{"import yaml": "raise SystemExit('no such module')"})
        assert "  | no such module" in refused(capsys, *SHORT)
        assert not Path("tuning").exists()
        write_trainer(world)
        assert main(words(*SHORT)) == 0

    def test_changes_are_noticed(self, tuned: Path, capsys: pytest.CaptureFixture[str]) -> None:
        labels = Path("labels.json").read_text()

        def changed(*more: str, **options: Any) -> str:
            err = refused(capsys, *SHORT, *more, **options)
            return err.partition("holds a tuning with other arguments: ")[2]

        write_trainer(tuned, 0.06)
        assert changed().startswith("files of the trainer ")
        write_trainer(tuned)
        assert changed(command="{config} {balance} {train} {val} {seed} {out} --epochs 2").startswith("trainer ")
        tables = json.loads(labels)
        tables["annotations"].pop()
        Path("labels.json").write_text(json.dumps(tables))
        assert changed().startswith("annotations ")
        Path("labels.json").write_text(labels)
        assert changed("placement.hflip_probability=0").startswith("placement.hflip_probability ")
        assert changed("--pairs", "7").startswith("num_pairs ")
        assert changed("--seed", "7").startswith("seed ")
        assert main(words(*SHORT)) == 0
        assert num_calls() == 22

    def test_interrupt(self, world: Path) -> None:
        """SIGINT to the command alone, as `kill` sends it: the trainer ends too, and the rest resumes."""
        is_fourth = "len(open('calls.txt').readlines()) == 3 and not os.path.exists('slow')"
        wait = "open('slow', 'w').write(str(os.getpid())), time.sleep(300)"
        write_trainer(world, **{"import yaml": f"import os, time, yaml\nif {is_fourth}: {wait}"})
        Path("calls.txt").touch()
        process = start_command(words(*SHORT))
        process.wait_until(lambda: Path("slow").exists() and Path("slow").read_text())
        os.kill(process.pid, signal.SIGINT)
        done = process.wait()
        assert done.returncode == 130
        assert done.stderr.startswith("segpaste: interrupted: ")
        assert "resumes from there" in done.stderr
        with pytest.raises(ProcessLookupError):
            os.kill(int(Path("slow").read_text()), 0)
        assert num_calls() == 3
        assert main(words(*SHORT)) == 0
        assert num_calls() == 22
        assert not list(Path("tuning").rglob("*.partial"))


class TestPlan:
    def test_dry_run(self, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(words("--dry-run", "--runs", "20")) == 0
        out = capsys.readouterr().out
        assert "labels.json: 16 images; a run trains on 12 and is scored on 4" in out
        assert "total    20 runs; only least_covering placement; only 4 objects" in out
        assert not Path("tuning").exists()
        assert num_calls() == 0

    def test_one_class_needs_no_balance(self, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
        tables = read("labels.json")
        tables["annotations"] = [row for row in tables["annotations"] if row["category_id"] == 3]
        Path("labels.json").write_text(json.dumps(tables))
        assert main(words("--dry-run", command="{config} {train} {val} {seed} {out}")) == 0
        assert "balance natural x share 0.5,1" in capsys.readouterr().out

    def test_a_class_in_one_image(self, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
        tables = read("labels.json")
        rare = [row for row in tables["annotations"] if row["category_id"] == 90][1:]
        tables["annotations"] = [row for row in tables["annotations"] if row not in rare]
        Path("labels.json").write_text(json.dumps(tables))
        assert main(words("--dry-run")) == 0
        assert "in one image only, and therefore not both trained on and scored: tooth brush" in capsys.readouterr().out


class TestFormats:
    def test_lists_of_paths(self, world: Path) -> None:
        """For a trainer that reads the dataset's own files; nothing else is written."""
        body = (
            "import json, os, sys\n"
            "lists = [open(path).read().splitlines() for path in sys.argv[2:4]]\n"
            "assert all(map(os.path.isfile, lists[0] + lists[1])) and not set(lists[0]) & set(lists[1])\n"
            "json.dump({'scores': {str(len(lists[1])): 1}}, open(sys.argv[5], 'w'))\n"
        )
        Path("train.py").write_text(body)
        more = ("--balances", "natural", "--shares", "1", "--counts", "1", "--placements", "uniform", "--pairs", "6")
        assert main(words(*more, command="{config} {train_list} {val_list} {seed} {out}")) == 0
        assert [*read("tuning/tune.json")["classes"]] == ["4"]
        assert not list(Path("tuning").rglob("entries.jsonl"))
        assert not list(Path("tuning/splits").rglob("*.json"))

    def test_yolo(self, world: Path) -> None:
        labels = {f"i{i}": "0 0.1 0.1 0.6 0.1 0.6 0.6 0.1 0.6\n1 0.5 0.5 0.9 0.5 0.9 0.9\n" for i in range(10)}
        write_yolo(world / "yolo", labels)
        write_trainer(world, **{"key / 90": "1"})
        command = words(*SHORT, "--runs", "12")
        command[1:4] = ["yolo", "--task", "segment"]
        assert main(command) == 0
        split = read("tuning/splits/final-1/train.json")
        assert len(split["images"]) == 8
        photos = open_dataset("tuning/splits/final-1/train.json", images_dir=world / "yolo")
        assert photos[0].num_instances == 2


class TestRefused:
    @pytest.mark.parametrize(
        ("more", "message"),
        [
            (["placement.paste_prob=0.3"], "placement.paste_prob: expected no value, because --shares"),
            (["source.crops_per_target=3"], "expected no value, because --counts"),
            (["placement.max_attempts=3"], "expected no value, because --placements"),
            (["source.kind=intra_batch"], "source.kind: expected bank"),
            (["placement.layers=2"], "placement.layers"),
            (["--shares", "0"], "above 0, up to 1"),
            (["--shares", "0.5,x"], "got 'x'"),
            (["--counts", "0,2"], "from 1 to 64"),
            (["--balances", "even"], "expected natural, tempered"),
            (["--placements", "corner"], "expected least_covering, uniform"),
            (["--pairs", "5"], "from 6 to 100"),
            (["--runs", "11"], "at least 12 runs"),
            (["--held-out", "0.5"], "up to 0.4"),
            (["--out", "photos"], "expected no folder"),
            (["--config", "none.yaml"], "none.yaml"),
        ],
    )
    def test_options(self, world: Path, capsys: pytest.CaptureFixture[str], more: list[str], message: str) -> None:
        assert message in refused(capsys, *more)
        assert num_calls() == 0

    def test_a_saved_config_of_another_source(self, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
        BatchCopyPasteConfig().save("batch.yaml")
        assert "source.kind: expected bank" in refused(capsys, "--config", "batch.yaml")

    def test_no_balance_for_the_trainer(self, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
        err = refused(capsys, command="{config} {train} {val} {seed} {out}")
        assert "--trainer: expected {balance}" in err

    def test_no_scores(self, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_trainer(world, **{"0.5 + noise": "float('nan')"})
        assert "expected finite numbers as scores, or null" in refused(capsys)

    def test_scenes(self, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["tune", "scenes", "--trainer", "x"]) == 2
        assert "expected a dataset of files" in capsys.readouterr().err

    def test_no_dataset(self, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["tune", "placement.layers=2", "--trainer", "x"]) == 2
        assert "expected DATASET before KEY=VALUE" in capsys.readouterr().err

    def test_pairs_with_the_same_held_out_images(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Each class is in two images: one of the pool, which every pair holds out."""
        labels = write_dataset(tmp_path)
        tables = json.loads(labels.read_text())
        tables["categories"] = [{"id": i, "name": f"class {i}"} for i in range(1, 9)]
        tables["annotations"] = [
            {**row, "category_id": 1 + row["image_id"] // 2} for row in tables["annotations"] if row["id"] % 2 == 0
        ]
        labels.write_text(json.dumps(tables))
        trainer = f"{sys.executable} {{config}} {{balance}} {{train}} {{val}} {{seed}} {{out}}"
        assert main(["tune", str(labels), "--images", str(tmp_path / "photos"), "--trainer", trainer]) == 2
        assert "expected pairs with different held-out images, got the same 4 of 16" in capsys.readouterr().err

    def test_few_images(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path, photos = write_instances(tmp_path / "few")
        trainer = f"{sys.executable} {{config}} {{balance}} {{train}} {{val}} {{seed}} {{out}}"
        assert main(["tune", str(path), "--images", str(photos), "--trainer", trainer]) == 2
        assert "expected at least 8 images" in capsys.readouterr().err

    def test_boxes_only(self, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
        tables = read("labels.json")
        for row in tables["annotations"]:
            del row["segmentation"]
        Path("labels.json").write_text(json.dumps(tables))
        assert "expected masks, got boxes only" in refused(capsys)

    def test_another_run_in_the_folder(self, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
        from segpaste.workspace import lock_folder

        Path("tuning").mkdir()
        lock = lock_folder(Path("tuning"))
        assert lock is not None
        try:
            assert "another run is writing there" in refused(capsys)
        finally:
            os.close(lock)


def test_panoptic_datasets_have_their_taxonomy_in_the_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    labels, photos, maps = write_panoptic(tmp_path, ((24, 32),) * 10)
    Path(tmp_path / "train.py").write_text(
        "import json, sys\njson.dump({'scores': {'cat': 1}}, open(sys.argv[5], 'w'))\n"
    )
    monkeypatch.chdir(tmp_path)
    command = words(*SHORT, "--runs", "12", command="{config} {train} {val} {seed} {out}")
    command[1:4] = [str(labels), "--images", str(photos), "--panoptic-dir", str(maps)]
    assert main(command) == 0
    config = BatchCopyPasteConfig.load("tuning/tuned.yaml")
    assert config.panoptic is not None
    assert "undecided" in capsys.readouterr().out


class TestPython:
    """The same tuning, set up without the command."""

    def options(self, **more: Any) -> TuneOptions:
        given = {"images_dir": "photos", "balances": ("natural",), "shares": (0.5,), "counts": (2,), "dry_run": True}
        trainer = "train.py {config} {train} {val} {seed} {out}"
        return TuneOptions(**{"dataset": "labels.json", "trainer": trainer, **given, **more})

    def test_the_plan_is_that_of_the_command(self, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
        given = ("--balances", "natural", "--shares", "0.5", "--counts", "2", "--dry-run")
        assert main(words(*given, command="{config} {train} {val} {seed} {out}")) == 0
        assert list(open_tuning(self.options()).lines()) == capsys.readouterr().out.splitlines()

    def test_errors_name_options_of_python(self, world: Path) -> None:
        with pytest.raises(TuningError, match=r"^placement.paste_prob: .* because shares sets it .*; use shares$"):
            open_tuning(self.options(overrides={"placement.paste_prob": 0.5}))
        with pytest.raises(TuningError, match=r"^trainer: expected \{balance\} in the command, .* or give balances"):
            open_tuning(self.options(balances=("natural", "tempered")))
