"""Errors of the command line say what was expected, what came and what to do, in words that are true when followed."""

from __future__ import annotations

import io
import re
import shlex
from pathlib import Path

import pytest

from segpaste.augmentation.config.paste import BatchCopyPasteConfig
from segpaste.augmentation.config.values import load_model
from segpaste.cli import _printed, main
from segpaste.datasets import DatasetError, create_coco_dataloader, make_large_scale_jittering, read_declaration
from segpaste.datasets.scenes import SceneConfig

CONFIGS = {
    "harmonize=poisson": "harmonize: expected keys and values, got 'poisson'; write harmonize.mode=poisson "
    "harmonize.prob=1",
    "placement=keep": "placement: expected keys and values, got 'keep'; write placement.position=keep",
    "source=1": "source: expected keys and values, got 1; write source.KEY=VALUE, with one of the keys kind,",
    "placement.region=[1,2]": "expected keys and values, got [1, 2]; write 'placement.region={KEY: VALUE}' in quotes",
    "harmonize.mode=alpha": "harmonize.mode: expected reinhard, multiband or poisson, got 'alpha'",
    "emit_depth=maybe": "emit_depth: expected true or false, got 'maybe'",
    "placement.layers=yes": "placement.layers: expected a number, got True",
    "panoptic.contact_priority={1:2}": "each colon, got '{1:2}'; write 'panoptic.contact_priority={1: 2}' in quotes",
    "source.relative_to=photo": "expected kind='bank' with relative_to, got kind='intra_batch'\n",
    "foo=1": "expected a key of the configuration, got 'foo'; the keys are emit_instance, ",
    "panoptic.taxonomy.foo=1": "the keys of panoptic.taxonomy are classes, ignore_index, max_instances_per_image",
    "placement.foo=1": "got 'placement.foo'; the keys of placement are scale_range, ",
}
TRAININGS = {
    "trainer.losses=[x]": "trainer.losses.0: expected mse, triplet, sparsity or angular_margin, got 'x'",
    "trainer.losses=[]": "trainer.losses: expected at least 1 of them, got []",
    "trainer.lr=0.1": "got 'trainer.lr'; the nearest is 'trainer.learning_rate'",
    "model.bits=64": "got 'model.bits'; the keys of model are num_attributes, hidden",
    "data.shuffle=maybe": "data.shuffle: expected true or false, got 'maybe'",
}
COMMANDS = {
    "stats scenes --balance temperd": "got 'temperd'; the nearest is 'tempered'; see segpaste stats --help",
    "replay x --dataset scenes": "expected --out or --check, got none; see segpaste replay --help",
    "replay x --dataset scenes --out a --check b": "--check: expected no --out beside it, got both; leave one out",
    "augment scenes --num": "--num: expected a value, got none; see segpaste augment --help",
    "score": "expected PAIRS.csv, VECTORS, --out, got none; see segpaste score --help",
    "demo foo": "got 'foo'; see segpaste demo --help",
    "demo --config none.yaml": "none.yaml: No such file or directory; check the path",
    "bank info none": "a folder with meta.json, found none; check the path, or run an interrupted build",
    "preview scenes --no-open --bank none": "a folder with meta.json, found none; check the path",
    "preview scenes --no-open --preset vit": "got 'vit'; the nearest is 'vit_patch'",
    "preview scenes --no-open --preset foo": "xpaste, got 'foo'",
}


def error_of(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(words) == 2
    found = capsys.readouterr().err
    assert found.startswith("segpaste: error: ")
    assert found.count("\n") == 1
    assert not re.search(r"[Ii]nput should|validation|argument is|is required|invalid choice", found)
    return found


@pytest.mark.parametrize("word", CONFIGS)
def test_a_word_of_a_paste(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert CONFIGS[word] in error_of(["demo", word], capsys)


@pytest.mark.parametrize("word", TRAININGS)
def test_a_word_of_a_training(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = error_of(["train", "a.csv", "b.csv", word], capsys)
    assert TRAININGS[word] in found
    assert found.count("got") == 1


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert COMMANDS[words] in error_of(shlex.split(words), capsys)


@pytest.mark.parametrize(
    "word", ["harmonize=poisson", "harmonize=multiband", "placement=keep", "panoptic.contact_priority={1:2}"]
)
def test_what_is_said_to_write_is_taken(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    advice = error_of(["demo", word], capsys).split("; write ")[1].removesuffix("in quotes\n")
    words = dict(part.split("=", 1) for part in shlex.split(advice))
    if "panoptic.contact_priority" in words:
        words["panoptic.taxonomy"] = "{classes: {1: thing}}"
    config = load_model(BatchCopyPasteConfig, None, words)
    assert config != load_model(BatchCopyPasteConfig, None, {})
    assert config.harmonize.is_active or "harmonize" not in word


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("unit: 1/5000", "depth.unit: expected m, cm, mm or the number of metres per unit, such as 0.0002 for 1/5000"),
        (
            "unit: -1",
            "depth.unit: expected m, cm, mm or the number of metres per unit, such as 0.0002 for 1/5000, got -1",
        ),
        ("unit: m\n  key: [1]", "depth.key: expected text, got [1]"),
        ("unit: m\n  invalid: 3", "depth.invalid: expected a list, got 3"),
    ],
)
def test_a_declaration(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "segpaste.yaml"
    path.write_text(f"photos: '{{name}}.jpg'\ndepth:\n  files: '{{name}}.png'\n  {line}\n")
    with pytest.raises(DatasetError, match=re.escape(message)) as error:
        read_declaration(path)
    assert "put should" not in str(error.value)


@pytest.mark.parametrize("size", ["128", (128,), (1, 2, 3), 128.0, None, (0, 4), True])
def test_a_size(size: object) -> None:
    message = r"size: expected \(height, width\) in pixels, or one integer for a square, got "
    with pytest.raises(ValueError, match=message):
        make_large_scale_jittering(size)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        create_coco_dataloader(dataset=[], batch_size=2, size=size)  # type: ignore[arg-type]


def test_other_values_of_the_jitter() -> None:
    with pytest.raises(
        ValueError, match=r"scale_range: expected \(low, high\), two numbers with 0 < low <= high, got 2"
    ):
        make_large_scale_jittering(64, scale_range=2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"prob: expected a number in \[0, 1\], got 'x'"):
        make_large_scale_jittering(64, hflip_prob="x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"SceneConfig\.height: expected a number at least 1, got '64'"):
        SceneConfig(height="64")  # type: ignore[arg-type]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_no_bar_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    with _printed.progress(0, "file"):
        pass
    assert shown.getvalue() == ""
    with _printed.progress(2, "file") as bar:
        bar.update(2)
    assert re.search(r"2/2 \[.* files?/s\]", shown.getvalue())
