"""Banks of crops, CSV files, matrices and Kaldi's archives: one command, the same options, the same bits."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoder_cases import SMALL, bits

from segpaste.bank import embed_bank
from segpaste.cli import main
from segpaste.encoder import LabelledVectors, read_vectors
from segpaste.encoder.checkpoints import read_checkpoint
from small_bank import small_bank

KINDS = ("numbers", "paths", "rows", "npy", "ark", "text", "scp", "bank")
OPTIONS = [*SMALL, "trainer.epochs=2", "--progress", "off"]


def drawn(num: int, seed: int) -> LabelledVectors:
    """Vectors that a bank can hold, of three classes."""
    labels = np.tile(np.arange(3), num)
    centres = np.random.default_rng(99).normal(size=(3, 256))
    vectors = centres[labels] + np.random.default_rng(seed).normal(size=(len(labels), 256))
    return LabelledVectors.of(vectors.astype(np.float16), [f"class {label}" for label in labels])


def write(folder: Path, name: str, data: LabelledVectors, kind: str) -> Path:
    """Write vectors, whose ids are their rows, in a form, and return the path that a command takes."""
    ids = [str(row) for row in range(len(data))]
    labels = [data.label_names[label] for label in data.labels]
    table: dict[str, Any] = {"id": ids, "label": labels}
    path = folder / f"{name}.csv"
    if kind == "bank":
        plain = small_bank(folder / f"{name}_plain", data.labels.tolist())
        done = iter(data.vectors)
        return Path(embed_bank(plain, folder / name, lambda images, _: np.stack([next(done) for _ in images])))
    if kind == "numbers":
        table |= {f"embedding_{i}": map(repr, data.vectors[:, i].tolist()) for i in range(256)}
    elif kind == "paths":
        table["path"] = [f"{name}_{row}.npy" for row in ids]
        for file, vector in zip(table["path"], data.vectors, strict=True):
            np.save(folder / file, vector)
    elif kind in ("rows", "npy"):
        order = np.argsort(data.labels) if kind == "rows" else np.arange(len(data))
        np.save(folder / f"{name}.npy", data.vectors[order])
        if kind == "rows":
            table |= {"path": [f"{name}.npy"] * len(ids), "row": np.argsort(order).tolist()}
    else:
        return write_kaldi(folder, name, data, kind)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([list(table), *zip(*table.values(), strict=True)])
    return path.with_suffix(".npy") if kind == "npy" else path


def write_kaldi(folder: Path, name: str, data: LabelledVectors, kind: str) -> Path:
    """Write an archive; the labels go to a file for each set, since the sets have the same ids."""
    content, places = b"", []
    for row, vector in enumerate(data.vectors):
        places.append(f"{row} {name}.ark:{len(content) + len(str(row)) + 1}\n")
        value = b" [ " + " ".join(map(repr, vector.tolist())).encode() + b" ]\n"
        if kind != "text":
            value = b"\0BFV \x04" + len(vector).to_bytes(4, "little") + vector.astype("<f4").tobytes()
        content += f"{row} ".encode() + value
    inside = folder / name
    inside.mkdir()
    (inside / f"{name}.ark").write_bytes(content)
    (inside / f"{name}.scp").write_text("".join(places))
    lines = [f"{row} class_{label}\n" for row, label in enumerate(data.labels.tolist())]
    (inside / "utt2spk").write_text("".join(lines))
    return inside / f"{name}.{'scp' if kind == 'scp' else 'ark'}"


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_vectors(tmp_path: Path, kind: str) -> None:
    expected = drawn(4, seed=1)
    found = read_vectors(write(tmp_path, "set", expected, kind))
    assert np.array_equal(found.vectors, expected.vectors)
    assert found.labels.tolist() == expected.labels.tolist()
    assert [name.replace("_", " ") for name in found.label_names] == list(expected.label_names)


def run(folder: Path, kinds: tuple[str, str, str], capsys: Any) -> tuple[dict[str, Any], bytes, str]:
    """Train on three sets and score pairs of the third: the parameters, the scores, and what train printed."""
    sets = zip(("train", "validation", "test"), kinds, (drawn(7, 1), drawn(5, 2), drawn(4, 3)), strict=True)
    train, validation, test = (str(write(folder, name, data, kind)) for name, kind, data in sets)
    (folder / "pairs.csv").write_text("enrollment,test\n0,3\n0,1\n4,7\n5,9\n")
    out = str(folder / "run")
    assert main(["train", train, validation, "--test", test, "--out", out, *OPTIONS]) == 0
    printed = capsys.readouterr().out.partition("files ")[0]
    words = [str(folder / "pairs.csv"), test, "--model", out, "--out", str(folder / "scores.csv")]
    assert main(["score", *words]) == 0
    capsys.readouterr()
    return bits(read_checkpoint(folder / "run" / "best.pt")), (folder / "scores.csv").read_bytes(), printed


def test_the_same_encoder_and_scores(tmp_path: Path, capsys: Any) -> None:
    """Names of speakers have no blanks in Kaldi's files, so the names of the classes differ there."""
    found = []
    for number, kinds in enumerate(
        [
            ("numbers", "numbers", "numbers"),
            ("bank", "bank", "bank"),
            ("npy", "ark", "rows"),
            ("paths", "scp", "bank"),
            ("text", "npy", "scp"),
        ]
    ):
        (tmp_path / str(number)).mkdir()
        found.append(run(tmp_path / str(number), kinds, capsys))
    first = found[0]
    for parameters, scores, printed in found[1:]:
        assert parameters.keys() == first[0].keys()
        assert all(np.array_equal(parameters[name], first[0][name]) for name in parameters)
        assert scores == first[1]
        assert printed.replace("class_", "class ") == first[2]


def test_one_file_of_speakers(tmp_path: Path, capsys: Any) -> None:
    """Utterances of all sets in one utt2spk, given as an option of either command."""
    files = [str(write(tmp_path, name, drawn(5, seed), "scp")) for seed, name in enumerate(("train", "validation"))]
    speakers = tmp_path / "train" / "utt2spk"
    speakers.replace(tmp_path / "all")
    (tmp_path / "validation" / "utt2spk").unlink()
    words = ["train", *files, "--out", str(tmp_path / "run"), *OPTIONS]
    assert main(words) == 2
    assert capsys.readouterr().err == f"segpaste: error: {speakers}: No such file or directory; check the path\n"
    assert main([*words, f"data.utt2spk={tmp_path / 'all'}"]) == 0
    (tmp_path / "pairs.csv").write_text("enrollment,test\n0,3\n0,1\n")
    words = ["score", str(tmp_path / "pairs.csv"), files[1], "--model", str(tmp_path / "run")]
    words += ["--out", str(tmp_path / "scores.csv")]
    capsys.readouterr()
    assert main(words) == 0
    assert "no figures: neither a key in the pairs nor labels" in capsys.readouterr().out
    assert main([*words, "--utt2spk", str(tmp_path / "all")]) == 0
    assert "1 target and 1 nontarget pairs" in capsys.readouterr().out
    assert (tmp_path / "scores.csv").read_text().splitlines()[1].endswith(",target")


@pytest.mark.parametrize(
    ("kind", "name"), [("npy", "set.csv"), ("npy", "set.npy"), ("scp", "set.ark"), ("ark", "utt2spk")]
)
def test_an_output_that_belongs_to_the_vectors(tmp_path: Path, capsys: Any, kind: str, name: str) -> None:
    """It would overwrite the labels or the vectors."""
    vectors = write(tmp_path, "set", drawn(2, 1), kind)
    taken = vectors.with_name(name)
    before = taken.read_bytes()
    (tmp_path / "pairs.csv").write_text("enrollment,test\n0,3\n")
    for option, other in (("--out", []), ("--contributions", ["--out", str(tmp_path / "scores.csv")])):
        words = ["score", str(tmp_path / "pairs.csv"), str(vectors), option, str(taken), *other]
        assert main(words) == 2
        expected = (
            f"segpaste: error: {option}: expected a file that is not an input, got {taken}; choose another name\n"
        )
        assert capsys.readouterr().err == expected
        assert taken.read_bytes() == before
