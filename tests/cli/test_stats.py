"""`segpaste stats`: counts that a reader without our code makes too, of datasets, augmented ones and banks."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_world import one_error, read_json, write_instances, write_panoptic

from segpaste.bank import BankSampler, Crop, Layout, MemmapWriter, copy_crops, open_bank
from segpaste.cli import main


def document(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main(["stats", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def column(found: Any, name: str) -> dict[str, Any]:
    return {row["name"]: row[name] for row in found["classes"]}


def test_instances(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Crowds are left out."""
    path, _ = write_instances(tmp_path)
    rows = [row for row in read_json(path)["annotations"] if not row["iscrowd"]]
    found = document(capsys, str(path))
    of_id = {3: "car", 7: "cup", 90: "zebra"}
    assert list(column(found, "objects").items()) == [
        (name, sum(row["category_id"] == key for row in rows)) for key, name in of_id.items()
    ]
    showing = Counter(key for _, key in {(row["image_id"], row["category_id"]) for row in rows})
    assert column(found, "photos") == {name: showing[key] for key, name in of_id.items()}
    assert found["kind"] == "dataset"
    assert found["photos"] == len({row["image_id"] for row in rows})
    assert "pasted" not in found["classes"][0]


def test_things_of_panoptic_segments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, _, _ = write_panoptic(tmp_path)
    assert column(document(capsys, str(path)), "objects") == {"car": 3, "zebra": 3}


def test_before_and_after(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, photos = write_instances(tmp_path)
    out = tmp_path / "augmented"
    words = ["augment", str(path), "--images", str(photos), "--out", str(out), "--num", "6", "--gallery", "0"]
    assert main([*words, "placement.scale_range=[0.5,0.9]"]) == 0
    capsys.readouterr()
    rows = [row for row in read_json(out / "annotations.json")["annotations"] if not row["iscrowd"]]
    found = document(capsys, str(out))
    of_id = {3: "car", 7: "cup", 90: "zebra"}
    pasted = Counter(of_id[row["category_id"]] for row in rows if row["segpaste"]["pasted"])
    assert found["kind"] == "augmented dataset"
    assert column(found, "pasted") == {name: pasted[name] for name in of_id.values()}
    assert column(found, "objects") == {
        name: sum(row["category_id"] == key for row in rows) for key, name in of_id.items()
    }
    assert 0 < sum(pasted.values()) < len(rows)
    assert main(["stats", str(out)]) == 0
    car = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("car")).split()
    num = {key: column(found, key)["car"] for key in ("objects", "pasted")}
    own = num["objects"] - num["pasted"]
    assert [car[1], car[3], car[4]] == [str(own), str(num["pasted"]), str(num["objects"])]


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    layout = Layout((1, 1), ("provenance",))
    with MemmapWriter(tmp_path / "bank", layout, ("cup", "wok", "none")) as writer:
        for i in range(50):
            writer.add(
                Crop(
                    np.zeros((3, 1, 1), np.uint8),
                    np.ones((1, 1, 1), bool),
                    int(i >= 45),
                    np.array([0, 0, 1, 1], np.int32),
                    source_size=np.array([1, 1], np.int32),
                    source_box=np.array([0, 0, 1, 1], np.float32),
                    scale=1.0,
                    image_id=i % 10,
                    annotation_id=i,
                )
            )
        return writer.finish()


@pytest.mark.parametrize("mode", ["repeat_factor", "instance_aware", "tempered", "class_uniform"])
def test_what_a_sampler_of_the_bank_reports(mode: Any, bank: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sampler = BankSampler(open_bank(bank), 70, mode=mode, threshold=0.3, temperature=0.7)
    given = {"tempered": ["--temperature", "0.7"], "class_uniform": []}.get(mode, ["--threshold", "0.3"])
    words = [str(bank), "--balance", mode, *given, "--draws", "70"]
    assert main(["stats", *words, "--all", "--sort", "class"]) == 0
    printed = capsys.readouterr().out
    assert f"\ndrawn with {mode}" in printed
    assert printed.endswith(f"\n{sampler.report()}\n")
    found = document(capsys, *words)
    assert found["kind"] == "bank"
    assert list(column(found, "expected_draws").values()) == list(sampler.report().expected_draws)


def rows_of(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[list[str], str]:
    """Return the classes of the rows of the last table, and the line after it."""
    assert main(["stats", *words]) == 0
    table, _, after = capsys.readouterr().out.partition("factor\n")[2].partition("\n\n")
    return [line.split()[0] for line in table.splitlines()], after.strip()


def test_the_most_frequent_class_comes_first_and_empty_ones_only_if_asked(
    bank: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"id": i, "image_id": 1, "category_id": c} for i, c in enumerate([2, 2, 3], start=1)]
    categories = [{"id": c, "name": name} for c, name in enumerate(["none", "cup", "wok", "pan"], start=1)]
    tables = {"images": [{"id": 1, "file_name": "a.png"}], "annotations": rows, "categories": categories[::-1]}
    path = tmp_path / "instances.json"
    path.write_text(json.dumps(tables))
    assert rows_of(capsys, str(path)) == (["cup", "wok"], "2 classes have no objects; --all shows them")
    rows[0]["category_id"] = 3  # the frequent class comes second in the dataset
    path.write_text(json.dumps(tables))
    assert rows_of(capsys, str(path))[0] == ["wok", "cup"]
    assert rows_of(capsys, str(path), "--sort", "class")[0] == ["cup", "wok"]
    assert sorted(rows_of(capsys, str(path), "--all")[0]) == ["cup", "none", "pan", "wok"]
    assert rows_of(capsys, str(bank)) == (["cup", "wok"], "1 class has no objects; --all shows them")


def test_urls(bank: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = "memory://stats-command/bank"
    copy_crops(open_bank(bank), url, range(50), format="webdataset")
    path, _ = write_instances(tmp_path)
    assert document(capsys, url) == document(capsys, f"file://{bank}") == document(capsys, str(bank))
    assert document(capsys, url, "--balance", "instance_aware")["photos"] == 10
    assert document(capsys, f"file://{path}") == document(capsys, str(path))


def test_scenes(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "scenes", "--num", "3", "--seed", "4")
    assert found["photos"] == 3
    assert sum(column(found, "objects").values()) > 3
    assert document(capsys, "scenes", "--num", "3", "--seed", "5") != found


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.json"], "nowhere.json: expected a dataset or a bank, found neither file nor folder"),
        (["memory://nowhere"], "memory://nowhere: expected a bank"),
        (["."], "expected a dataset with annotations.json or a bank with meta.json, found neither"),
        (["scenes", "--balance", "rare"], "class_uniform, got 'rare'"),
        (["scenes", "--threshold", "0"], "expected a number above 0, up to 1, got '0'"),
        (["scenes", "--balance", "tempered", "--temperature", "1.5"], "expected a number from 0 to 1, got '1.5'"),
        (["scenes", "--temperature", "0.3"], "--temperature: expected --balance tempered with this option, got repeat"),
        (["scenes", "--balance", "tempered", "--threshold", "0.1"], "expected --balance repeat_factor or inst"),
        (["empty.json", "--num", "3"], "expected these options only with scenes"),
        (["empty.json"], "empty.json: expected at least one object, got none"),
        (["broken.json"], "expected every id that annotation 1 refers to in 'categories', got 8"),
        (["scenes", "a=1"], "expected options only, got a=..."),
        (["scenes", "--imges", "x"], "expected a known option, got '--imges'; see segpaste stats --help"),
        (["empty.json", "--images", "photos"], "--images: expected no folder of images, because stats counts annot"),
    ],
)
def test_bad_input(
    words: Any, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tables = {"images": [], "annotations": [], "categories": [{"id": 1, "name": "cup"}]}
    Path("empty.json").write_text(json.dumps(tables))
    tables["annotations"] = [{"id": 1, "image_id": 1, "category_id": 8}]
    Path("broken.json").write_text(json.dumps(tables))
    assert main(["stats", *words]) == 2
    assert message in one_error(capsys)
