"""`segpaste score`: pairs of samples in, log-likelihood ratios out, and one clear line for what is wrong."""

from __future__ import annotations

import csv
import io
import itertools
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.metrics import log_loss

from segpaste.cli import main
from segpaste.encoder import LabelledVectors, TrainConfig, equal_error_rate, load_encoder, min_dcf, read_vectors, train

SIZE, NUM_BITS = 9, 24


def drawn(num_classes: int, num: int, seed: int) -> LabelledVectors:
    """Vectors of classes of their own."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(num_classes), num)
    vectors = 1.5 * rng.normal(size=(num_classes, SIZE))[labels] + rng.normal(size=(len(labels), SIZE))
    return LabelledVectors.of(vectors, [f"s{seed}_{label}" for label in labels])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder of vectors in the columns embedding_0 and so on, with evidence."""
    values = {
        "data": {"N_classes_per_batch": 8, "M_samples_per_class": 4, "label_column": "speaker"},
        "model": {"num_attributes": NUM_BITS, "hidden": 32},
        "trainer": {"epochs": 6, "learning_rate": 0.005, "device": "cpu"},
    }
    out = tmp_path_factory.mktemp("encoder") / "run"
    train(drawn(60, 6, seed=1), drawn(40, 4, seed=2), TrainConfig.model_validate(values), out)
    return out


def write_vectors(path: Path, ids: list[str], labels: list[str] | None, seed: int = 3) -> Path:
    """A vector around its label's centre for each id."""
    rng = np.random.default_rng(seed)
    names = labels or ids
    centres = {name: 1.5 * rng.normal(size=SIZE) for name in dict.fromkeys(names)}
    lines = [["id", *(["speaker"] if labels else []), *(f"embedding_{i}" for i in range(SIZE))]]
    for i, name in enumerate(names):
        vector = centres[name] + rng.normal(size=SIZE)
        lines.append([ids[i], *([name] if labels else []), *map(repr, vector.tolist())])
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(lines)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve vectors of four speakers, and four pairs."""
    write_vectors(tmp_path / "vectors.csv", [f"v{i}" for i in range(12)], [f"s{i % 4}" for i in range(12)])
    (tmp_path / "pairs.csv").write_text(
        "enrollment,test,key\nv0,v4,target\nv0,v1,nontarget\nv2,v6,1\nv3,v3,target\nv9,v2,Nontarget\n"
    )
    return tmp_path


def score(folder: Path, run: Path, *options: str) -> int:
    words = [str(folder / "pairs.csv"), str(folder / "vectors.csv"), "--model", str(run)]
    return main(["score", *words, "--out", str(folder / "scores.csv"), *options])


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


class TestScores:
    def test_are_those_of_the_evidence(self, folder: Path, run: Path, capsys: Any) -> None:
        assert score(folder, run) == 0
        out, err = capsys.readouterr()
        assert err == ""
        rows = rows_of(folder / "scores.csv")
        assert list(rows[0]) == ["enrollment", "test", "score", "llr", "key"]
        assert [(row["enrollment"], row["test"]) for row in rows][3:] == [("v3", "v3"), ("v9", "v2")]
        assert [row["key"] for row in rows] == ["target", "nontarget", "target", "target", "nontarget"]
        trained = load_encoder(run)
        assert trained.evidence is not None
        assert trained.evidence.calibration is not None
        vectors = [[float(row[f"embedding_{i}"]) for i in range(SIZE)] for row in rows_of(folder / "vectors.csv")]
        codes = trained.encoder.encode(torch.tensor(vectors)).numpy()
        for row in rows:
            one, other = (codes[int(row[name][1:])] for name in ("enrollment", "test"))
            assert float(row["score"]) == pytest.approx(trained.evidence.explain(one, other).sum(), abs=1e-6)
            ratio = trained.evidence.calibration.scale * float(row["score"]) + trained.evidence.calibration.shift
            assert float(row["llr"]) == pytest.approx(ratio, abs=1e-6)
        assert "pairs              5, of 12 vectors\nsame vector        1 pairs of a vector with itself" in out
        assert "2 target and 2 nontarget pairs" in out
        assert os.listdir(folder).count("scores.csv") == 1
        assert not list(folder.glob(".*.partial"))

    def test_twice_and_over_what_is_there(self, folder: Path, run: Path) -> None:
        assert score(folder, run) == 0
        first = (folder / "scores.csv").read_bytes()
        (folder / "scores.csv").write_text("other")
        assert score(folder, run) == 0
        assert (folder / "scores.csv").read_bytes() == first

    def test_neither_key_nor_labels(self, folder: Path, run: Path, capsys: Any) -> None:
        write_vectors(folder / "vectors.csv", [f"v{i}" for i in range(12)], None)
        (folder / "pairs.csv").write_text("test\tenrolment\nv4\tv0\n")
        assert score(folder, run) == 0
        assert rows_of(folder / "scores.csv")[0].keys() == {"enrollment", "test", "score", "llr"}
        assert rows_of(folder / "scores.csv")[0]["enrollment"] == "v0"
        assert "no figures: neither a key in the pairs nor labels of the vectors" in capsys.readouterr().out

    def test_more_pairs_than_are_scored_at_once(self, folder: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert score(folder, run) == 0
        first = (folder / "scores.csv").read_bytes()
        monkeypatch.setattr("segpaste.encoder.trials._NUM_PAIRS", 2)
        assert score(folder, run) == 0
        assert (folder / "scores.csv").read_bytes() == first

    def test_names_of_columns(self, folder: Path, run: Path, capsys: Any) -> None:
        text = (folder / "vectors.csv").read_text()
        (folder / "vectors.csv").write_text(text.replace("id,", "utterance,", 1).replace("embedding_", "v"))
        assert score(folder, run) == 2
        assert "expected a column 'id' of ids" in (err := capsys.readouterr().err)
        assert err.endswith("; set another with --id-column\n")
        assert score(folder, run, "--id-column", "utterance", "--embedding-prefix", "v") == 0


class TestContributions:
    """The summand of each attribute, in a file of its own."""

    def test_add_up_to_the_score(self, folder: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Attribute by attribute they are the ratios of the evidence, in pieces of any length."""
        assert score(folder, run, "--contributions", str(folder / "new" / "parts.csv")) == 0
        rows, scores = rows_of(folder / "new" / "parts.csv"), rows_of(folder / "scores.csv")
        assert list(rows[0]) == ["enrollment", "test", *(f"attribute_{k}" for k in range(NUM_BITS))]
        trained = load_encoder(run)
        assert trained.evidence is not None
        vectors = read_vectors(folder / "vectors.csv", label_column="speaker").vectors
        codes = trained.encoder.encode(torch.from_numpy(vectors)).numpy()
        for row, scored in zip(rows, scores, strict=True):
            assert (row["enrollment"], row["test"]) == (scored["enrollment"], scored["test"])
            parts = [float(row[f"attribute_{k}"]) for k in range(NUM_BITS)]
            assert sum(parts) == pytest.approx(float(scored["score"]), abs=1e-6)
            one, other = (codes[int(row[name][1:])] for name in ("enrollment", "test"))
            expected = [trained.evidence.log_ratios[k, int(one[k]), int(other[k])] for k in range(NUM_BITS)]
            assert parts == pytest.approx(expected, abs=1e-6)
        before = (folder / "new" / "parts.csv").read_bytes()
        monkeypatch.setattr("segpaste.encoder.trials._NUM_CHARS", 10)
        assert score(folder, run, "--contributions", str(folder / "new" / "parts.csv")) == 0
        assert (folder / "new" / "parts.csv").read_bytes() == before

    @pytest.mark.parametrize("name", ["pairs.csv", "vectors.csv"])
    def test_an_input_as_the_output(self, folder: Path, run: Path, capsys: Any, name: str) -> None:
        before = (folder / name).read_bytes()
        assert score(folder, run, "--contributions", str(folder / name)) == 2
        assert "--contributions: expected a file that is not an input" in capsys.readouterr().err
        assert (folder / name).read_bytes() == before
        assert not (folder / "scores.csv").exists()

    def test_the_other_output(self, folder: Path, run: Path, capsys: Any) -> None:
        assert score(folder, run, "--contributions", str(folder / "scores.csv")) == 2
        assert "--contributions: expected another file than --out, got " in capsys.readouterr().err


class TestPlots:
    """Their curves are compared with other computations in `tests/viz/test_score_curves.py`."""

    def test_are_drawn(self, folder: Path, run: Path, capsys: Any) -> None:
        assert score(folder, run, "--plots", str(folder / "plots")) == 0
        assert sorted(os.listdir(folder / "plots")) == ["det.png", "tippett.png"]
        for name in ("det.png", "tippett.png"):
            with Image.open(folder / "plots" / name) as picture:
                assert picture.size == (640, 640)
        assert f"scores.csv, {folder / 'plots' / 'det.png'}, " in capsys.readouterr().out

    def test_one_kind_of_pairs(self, folder: Path, run: Path, capsys: Any) -> None:
        for key, text in (("", "v0,v4\n"), (",key", "v0,v4,target\nv0,v8,target\n")):
            (folder / "pairs.csv").write_text(f"enrollment,test{key}\n{text}")
            assert score(folder, run, "--plots", str(folder / "plots")) == 2
            out, err = capsys.readouterr()
            assert out == ""
            assert err.startswith("segpaste: error: --plots: expected pairs of one class and of two classes, got not")
            assert err.count("\n") == 1
            assert not (folder / "scores.csv").exists()
            assert not (folder / "plots").exists()

    def test_a_file_in_place_of_the_folder(self, folder: Path, run: Path, capsys: Any) -> None:
        assert score(folder, run, "--plots", str(folder / "pairs.csv")) == 2
        assert "pairs.csv: File exists" in capsys.readouterr().err
        assert not (folder / "scores.csv").exists()

    def test_misleading_ratios(self, folder: Path, run: Path, capsys: Any) -> None:
        ids = [f"v{i}" for i in range(12)]
        pairs = [f"{one},{other}" for one, other in itertools.combinations(ids, 2)]
        (folder / "pairs.csv").write_text("\n".join(["enrollment,test", *pairs]))
        assert score(folder, run) == 0
        ratios: dict[str, list[float]] = {"target": [], "nontarget": []}
        for row in rows_of(folder / "scores.csv"):
            ratios[row["key"]].append(float(row["llr"]))
        below = sum(ratio < 0 for ratio in ratios["target"]) / len(ratios["target"])
        above = sum(ratio > 0 for ratio in ratios["nontarget"]) / len(ratios["nontarget"])
        line = f"misleading         {below:.2%} of the target pairs have a ratio below 1, {above:.2%} of the nontarget "
        assert line in capsys.readouterr().out


class TestSpeakers:
    """Real lists of utterances, speakers and trials; the vectors are made here, for there is no audio."""

    @pytest.fixture
    def lists(self, test_data: Path) -> Path:
        return test_data / "speaker_csv" / "balr_voxceleb2"

    def test_trials(self, lists: Path, run: Path, tmp_path: Path, capsys: Any) -> None:
        """Half of them are of an utterance with itself, which is said and not counted."""
        speakers = rows_of(lists / "metadata.csv")
        write_vectors(tmp_path / "vectors.csv", [r["id"] for r in speakers], [r["speaker"] for r in speakers])
        words = [str(lists / "trials.csv"), str(tmp_path / "vectors.csv"), "--model", str(run)]
        assert main(["score", *words, "--out", str(tmp_path / "scores.csv")]) == 0
        trials = list(csv.DictReader(io.StringIO((lists / "trials.csv").read_text()), delimiter="\t"))
        rows = rows_of(tmp_path / "scores.csv")
        assert [(r["enrollment"], r["test"]) for r in rows] == [(t["enrollment"], t["test"]) for t in trials]
        assert [row["key"] for row in rows] == ["target"] * 9 + ["nontarget"] * 9
        out = capsys.readouterr().out
        assert "pairs              18, of 27 vectors\nsame vector        9 pairs" in out
        assert "no figures: they need pairs of one class and pairs of two classes" in out

    def test_all_pairs(self, lists: Path, run: Path, tmp_path: Path, capsys: Any) -> None:
        """The figures are those of the written ratios, and the key is that of the speakers."""
        speakers = rows_of(lists / "metadata.csv")
        ids = [row["id"] for row in speakers]
        speaker_of = {row["id"]: row["speaker"] for row in speakers}
        write_vectors(tmp_path / "vectors.csv", ids, list(speaker_of.values()))
        pairs = [f"{one},{other}" for one, other in itertools.combinations(ids, 2)]
        (tmp_path / "pairs.csv").write_text("\n".join(["enrollment,test", *pairs]))
        assert score(tmp_path, run) == 0
        out, rows = capsys.readouterr().out, rows_of(tmp_path / "scores.csv")
        is_target = np.array([speaker_of[row["enrollment"]] == speaker_of[row["test"]] for row in rows])
        assert (np.array([row["key"] for row in rows]) == np.where(is_target, "target", "nontarget")).all()
        ratios = np.array([float(row["llr"]) for row in rows])
        weights = np.where(is_target, 0.5 / is_target.sum(), 0.5 / (~is_target).sum())
        cost = log_loss(is_target, 1 / (1 + np.exp(-ratios)), sample_weight=weights) / np.log(2)
        rate = equal_error_rate(ratios[is_target], ratios[~is_target])
        assert cost < 0.8
        line = re.search(r"EER ([\d.]+)%, Cllr ([\d.]+) \(at best ([\d.]+)\), of 27 target and 324 nontarget", out)
        assert line is not None
        assert float(line[1]) == pytest.approx(100 * rate, abs=0.006)
        assert float(line[2]) == pytest.approx(cost, abs=0.0006)
        assert float(line[3]) <= float(line[2])
        assert f"\ndetection cost     minDCF {min_dcf(ratios[is_target], ratios[~is_target]):.3f}, where 1 %" in out
        assert re.search(r"\nraw vectors        EER [\d.]+%, minDCF [\d.]+, by their cosine\n", out)


class TestRefusing:
    @pytest.mark.parametrize(
        ("pairs", "message"),
        [
            ("", "pairs.csv: line 1: expected the columns enrollment and test of ids, got an empty file"),
            ("a,b\nv0,v1\n", "line 1: expected the columns enrollment and test of ids, got the columns a, b"),
            ("enrollment,test\n", "expected a line for each pair after the names of the columns, got none"),
            ("enrollment,test\nv0,v1,v2\n", "line 2: expected 2 columns, got 3"),
            ("enrollment,test\nv0,v1\nv0,v77\n", "line 3, column 'test': expected the id of a vector, got 'v77'"),
            ("enrollment,test,key\nv0,v1,\n", "line 2, column 'key': expected target or 1, nontarget or 0, got ''"),
            ("test,test,enrollment\nv0,v1,v2\n", "line 1: expected each column once, got 'test' twice"),
        ],
    )
    def test_pairs(self, folder: Path, run: Path, capsys: Any, pairs: str, message: str) -> None:
        (folder / "pairs.csv").write_text(pairs)
        self.check(folder, run, capsys, message)

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("v1,", "v0,", "vectors.csv: column 'id': expected each id once, got 'v0' twice"),
            ("v1,s1", "v1,", "line 3, column 'speaker': expected a text, or no such column, got none"),
            (",embedding_8", ",other", f"expected vectors of {SIZE} numbers, as the encoder was trained on, got 8"),
        ],
    )
    def test_vectors(self, folder: Path, run: Path, capsys: Any, old: str, new: str, message: str) -> None:
        text = (folder / "vectors.csv").read_text()
        (folder / "vectors.csv").write_text(text.replace(old, new, 1))
        self.check(folder, run, capsys, message)

    def test_no_run(self, folder: Path, capsys: Any) -> None:
        self.check(folder, folder / "none", capsys, "none: No such file or directory")

    def test_a_run_without_evidence(self, folder: Path, run: Path, capsys: Any) -> None:
        from segpaste.encoder.checkpoints import read_checkpoint, write_checkpoint

        state = read_checkpoint(run / "best.pt")
        del state["evidence"]
        write_checkpoint(folder / "best.pt", state)
        self.check(folder, folder, capsys, "expected a run of segpaste train with evidence, got one without; finish")

    def test_an_input_as_the_output(self, folder: Path, run: Path, capsys: Any) -> None:
        before = (folder / "pairs.csv").read_bytes()
        self.check(folder, run, capsys, "--out: expected a file that is not", "--out", str(folder / "pairs.csv"))
        assert (folder / "pairs.csv").read_bytes() == before

    def test_a_folder_that_is_a_file(self, folder: Path, run: Path, capsys: Any) -> None:
        self.check(folder, run, capsys, "File exists", "--out", str(folder / "pairs.csv" / "scores.csv"))

    def test_a_folder_that_is_not_there_is_made(self, folder: Path, run: Path) -> None:
        assert score(folder, run, "--out", str(folder / "new" / "scores.csv")) == 0
        assert (folder / "new" / "scores.csv").is_file()

    def test_words_and_no_out(self, folder: Path, run: Path, capsys: Any) -> None:
        self.check(folder, run, capsys, "expected options only, got data.x=...; see segpaste score --help", "data.x=1")
        assert main(["score", "pairs.csv", "vectors.csv"]) == 2
        assert "--out, got none" in capsys.readouterr().err

    def check(self, folder: Path, run: Path, capsys: Any, message: str, *options: str) -> None:
        assert score(folder, run, *options) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("segpaste: error: ")
        assert message in err
        assert err.count("\n") == 1
        assert not (folder / "scores.csv").exists()
