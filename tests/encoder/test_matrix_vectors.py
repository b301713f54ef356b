"""Vectors in the rows of one ``.npy`` matrix, by a CSV beside it or by a column of row numbers."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from segpaste.encoder import VectorsError, read_vectors
from segpaste.encoder.vectors import read_named

ROWS = np.array([[1, 2], [-3, 4], [0.5, -0.25]])


def write(folder: Path, array: Any, *lines: str) -> Path:
    np.save(folder / "set.npy", array)
    (folder / "set.csv").write_text("".join(f"{line}\n" for line in lines))
    return folder / "set.npy"


class TestBeside:
    @pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f8", "<i8", "|u1"])
    @pytest.mark.parametrize("order", ["C", "F"])
    def test_a_line_for_each_row(self, tmp_path: Path, dtype: str, order: Any) -> None:
        array = np.asarray(np.abs(ROWS).astype(dtype), order=order)
        data = read_vectors(write(tmp_path, array, "x,label", "7,b", "", "7,a", "7,b"), label_names=("a",))
        assert data.vectors.dtype == np.float32
        assert data.vectors.tolist() == array.astype(np.float64).tolist()
        assert [data.label_names[label] for label in data.labels] == ["b", "a", "b"]
        assert data.label_names == ("a", "b")

    def test_ids_with_and_without_labels(self, tmp_path: Path) -> None:
        path = write(tmp_path, ROWS, "id,speaker", "u1,anna", "u2,ben", "u3,anna")
        found = read_named(path, "id", "speaker", ("path", "embedding_"))
        assert found.row_of == {"u1": 0, "u2": 1, "u3": 2}
        assert found.labels == ["anna", "ben", "anna"]
        assert found.vectors.tolist() == ROWS.tolist()
        assert read_named(path, "id", "label", ("path", "embedding_")).labels is None

    @pytest.mark.parametrize(
        ("array", "lines", "message"),
        [
            (ROWS, ["label", "a", "b"], r"set\.csv: expected 3 lines, one for each row of set\.npy, got 2"),
            (ROWS, ["label", "a", "b", "a", "b"], r"set\.csv: expected 3 lines, .* got 4"),
            (ROWS, [], r"set\.csv: expected a line with the names of the columns and one for each vector, got none"),
            (ROWS, ["name", "a", "b", "a"], r"set\.csv: line 1: expected a column 'label' of labels, got .* name"),
            (ROWS, ["x,label", "1,a", "1,", "1,b"], r"set\.csv: line 3, column 'label': expected a label, got none"),
            (ROWS[0], ["label", "a", "b"], r"set\.npy: expected numbers \[N, D\], got float64 \[2\]"),
            (ROWS[:, :0], ["label", "a"], r"set\.npy: expected numbers \[N, D\], got float64 \[3, 0\]"),
            (ROWS > 0, ["label", "a"], r"set\.npy: expected numbers \[N, D\], got bool \[3, 2\]"),
            (ROWS * [1e39, 1], ["label", *"abc"], r"set\.npy: row 0: expected finite numbers, got NaN or an infinite"),
            (
                ROWS * np.array([[1], [np.nan], [1]]),
                ["label", *"abc"],
                r"set\.npy: row 1: expected finite numbers, got NaN",
            ),
        ],
    )
    def test_refused(self, tmp_path: Path, array: np.ndarray, lines: list[str], message: str) -> None:
        with pytest.raises(VectorsError, match=message):
            read_vectors(write(tmp_path, array, *lines))

    def test_no_labels(self, tmp_path: Path) -> None:
        write(tmp_path, ROWS).with_suffix(".csv").unlink()
        with pytest.raises(
            VectorsError, match=r"set\.npy: expected a set\.csv beside it with a line for each row and "
        ):
            read_vectors(tmp_path / "set.npy")

    @pytest.mark.parametrize("num", [0, 5, 60, 140])
    def test_a_file_that_is_broken_off(self, tmp_path: Path, num: int) -> None:
        path = write(tmp_path, ROWS, "label", *"aba")
        path.write_bytes(path.read_bytes()[:num])
        with pytest.raises(VectorsError, match=r"set\.npy: expected a \.npy file, got .*set\.npy that cannot be read"):
            read_vectors(path)

    def test_objects_are_not_unpickled(self, tmp_path: Path) -> None:
        with pytest.raises(VectorsError, match=r"that cannot be read: .*allow_pickle"):
            read_vectors(write(tmp_path, np.array([[print]]), "label", "a"))


class TestRowNumbers:
    def test_rows_of_several_matrices_and_vectors(self, tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", ROWS)
        np.save(tmp_path / "b.npy", 10 * ROWS)
        np.save(tmp_path / "one.npy", np.array([8.0, 9.0]))
        lines = ["row,label,path", "2,x,a.npy", "0,y,b.npy", "2,x,a.npy", ",y,one.npy", "1,y,a.npy"]
        (tmp_path / "all.csv").write_text("\n".join(lines))
        data = read_vectors(tmp_path / "all.csv")
        assert data.vectors.tolist() == [[0.5, -0.25], [10, 20], [0.5, -0.25], [8, 9], [-3, 4]]

    def test_more_matrices_than_files_may_be_open(self, tmp_path: Path) -> None:
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        for number in range(300):
            np.save(tmp_path / f"{number}.npy", ROWS + number)
        lines = ["label,path,row", *(f"a,{number}.npy,1" for number in range(300))]
        (tmp_path / "all.csv").write_text("\n".join(lines))
        resource.setrlimit(resource.RLIMIT_NOFILE, (250, before[1]))
        try:
            found = read_vectors(tmp_path / "all.csv").vectors
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert found.tolist() == [[number - 3, number + 4] for number in range(300)]

    @pytest.mark.parametrize("row", ["3", "-1", "1.0", "", "two", "1" * 40])
    def test_a_row_that_is_not_there(self, tmp_path: Path, row: str) -> None:
        write(tmp_path, ROWS, "label,path,row", f"a,set.npy,{row}")
        expected = r"set\.csv: line 2, column 'path': expected a row from 0 to 2, the last one of the matrix, got "
        with pytest.raises(VectorsError, match=f"{expected}'{row[:57]}"):
            read_vectors(tmp_path / "set.csv")

    @pytest.mark.parametrize(
        ("array", "columns", "message"),
        [
            (
                ROWS,
                ["label,path", "a,set.npy"],
                r"got float64 \[3, 2\]; a column 'row' with numbers from 0 takes a row",
            ),
            (ROWS[None], ["label,path,row", "a,set.npy,0"], r"expected numbers \[D\] in .*, got float64 \[1, 3, 2\]$"),
            (ROWS * np.nan, ["label,path,row", "a,set.npy,0"], r"expected finite numbers in .*set\.npy, got NaN"),
        ],
    )
    def test_refused(self, tmp_path: Path, array: np.ndarray, columns: list[str], message: str) -> None:
        write(tmp_path, array, *columns)
        with pytest.raises(VectorsError, match=rf"set\.csv: line 2, column 'path': .*{message}"):
            read_vectors(tmp_path / "set.csv")
