"""Vectors from files: what is read, and one clear error for each thing that can be wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoder_cases import clusters, write_numbers

from segpaste.bank import BankError, Crop, Layout, MemmapWriter
from segpaste.encoder import LabelledVectors, VectorsError, read_vectors


def csv(folder: Path, *lines: str) -> Path:
    path = folder / "set.csv"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def make_bank(path: Path, labels: list[int], embeddings: np.ndarray | None) -> Path:
    layout = Layout((3, 5), () if embeddings is None else ("embedding",))
    with MemmapWriter(path, layout, ["cat", "none", "dog"]) as writer:
        for index, label in enumerate(labels):
            writer.add(
                Crop(
                    image=np.zeros((3, 3, 5), np.uint8),
                    alpha=np.ones((1, 3, 5), bool),
                    class_id=label,
                    content_box=np.array([0, 0, 5, 3], np.int32),
                    embedding=None if embeddings is None else embeddings[index].astype(np.float16),
                )
            )
        writer.finish()
    return path


class TestNumbers:
    def test_columns_come_in_the_order_of_their_number(self, tmp_path: Path) -> None:
        path = csv(tmp_path, "embedding_10,x,embedding_9,label", "3,7,-1.5,b", "", "4e2,7,0,a", "5,7,1,b")
        data = read_vectors(path)
        assert data.vectors.tolist() == [[-1.5, 3], [0, 400], [1, 5]]
        assert data.vectors.dtype == np.float32
        assert data.labels.tolist() == [0, 1, 0]
        assert data.label_names == ("b", "a")

    def test_other_names(self, tmp_path: Path) -> None:
        path = csv(tmp_path, "\ufeffspeaker,f.0,f01", "x,1,2")
        assert read_vectors(path, label_column="speaker", embedding_prefix="f.").vectors.tolist() == [[1]]

    def test_a_label_among_numbered_columns(self, tmp_path: Path) -> None:
        """pandas writes such a column for a frame without names; it is no feature."""
        path = csv(tmp_path, ",0,1,2", "0,1.5,2.5,7", "1,3.5,4.5,8")
        data = read_vectors(path, label_column="2", embedding_prefix="")
        assert data.vectors.tolist() == [[1.5, 2.5], [3.5, 4.5]]
        assert data.columns == ("0", "1")
        assert data.label_names == ("7", "8")

    @pytest.mark.parametrize("label", [0, 1, 3])
    def test_a_label_at_any_place_of_them(self, tmp_path: Path, label: int) -> None:
        data = read_vectors(csv(tmp_path, "0,1,2,3", "5,6,7,8"), label_column=str(label), embedding_prefix="")
        assert data.vectors.tolist() == [[value for i, value in enumerate((5, 6, 7, 8)) if i != label]]

    def test_nothing_but_a_label(self, tmp_path: Path) -> None:
        with pytest.raises(VectorsError, match="or columns 0, 1 and so on, got the columns 0"):
            read_vectors(csv(tmp_path, "0", "a"), label_column="0", embedding_prefix="")

    def test_written_and_read(self, tmp_path: Path) -> None:
        data = clusters(3, seed=1)
        read = read_vectors(write_numbers(tmp_path / "set.csv", data))
        assert np.array_equal(read.vectors, data.vectors)
        assert read.digest() == data.digest()

    def test_labels_are_numbered_as_in_training(self, tmp_path: Path) -> None:
        path = csv(tmp_path, "label,embedding_0", "new,1", "b,2", "a,3")
        data = read_vectors(path, label_names=("a", "unused", "b"))
        assert data.labels.tolist() == [3, 2, 0]
        assert data.label_names == ("a", "unused", "b", "new")

    @pytest.mark.parametrize("change", ["vectors", "labels", "names"])
    def test_the_digest_is_of_all(self, tmp_path: Path, change: str) -> None:
        lines = {"vectors": ("a,1", "b,3"), "labels": ("a,1", "a,2"), "names": ("a,1", "c,2")}
        one = read_vectors(csv(tmp_path, "label,embedding_0", "a,1", "b,2"), label_names="ab").digest()
        assert read_vectors(csv(tmp_path, "label,embedding_0", *lines[change]), label_names="ab").digest() != one


class TestFiles:
    def test_they_lie_beside_the_csv(self, tmp_path: Path) -> None:
        (tmp_path / "v").mkdir()
        np.save(tmp_path / "v" / "a.npy", np.array([1, 2], np.float16))
        np.save(tmp_path / "b.npy", np.array([3, 4]))
        path = csv(tmp_path, "label,path,embedding_0", "x,v/a.npy,nan", f"y,{tmp_path / 'b.npy'},nan")
        assert read_vectors(path).vectors.tolist() == [[1, 2], [3, 4]]

    @pytest.mark.parametrize(
        ("array", "message"),
        [
            (None, r"line 3, column 'path': expected a \.npy file, found no .*b\.npy"),
            (b"no array", r"line 3, column 'path': expected a \.npy file, got .*b\.npy that cannot be read"),
            (np.zeros((2, 2)), r"expected numbers \[D\] in .*b\.npy, got float64 \[2, 2\]"),
            (np.zeros(0), r"expected numbers \[D\] in .*b\.npy, got float64 \[0\]"),
            (np.array(["a", "b"]), r"expected numbers \[D\] in .*b\.npy, got <U1 \[2\]"),
            (np.array([1, np.nan]), r"line 3, column 'path': expected finite numbers in .*b\.npy, got NaN"),
            (np.array([1, 1e39]), r"expected finite numbers in .*b\.npy"),
            (np.zeros(3), r"line 3, column 'path': expected 2 numbers as in the lines before, got 3"),
        ],
    )
    def test_refused(self, tmp_path: Path, array: np.ndarray | bytes | None, message: str) -> None:
        np.save(tmp_path / "a.npy", np.zeros(2))
        if isinstance(array, bytes):
            (tmp_path / "b.npy").write_bytes(array)
        elif array is not None:
            np.save(tmp_path / "b.npy", array)
        with pytest.raises(VectorsError, match=rf"set\.csv: {message}|set\.csv: line 3, column 'path': {message}"):
            read_vectors(csv(tmp_path, "label,path", "x,a.npy", "y,b.npy"))


class TestWrongCSV:
    @pytest.mark.parametrize(
        ("lines", "message"),
        [
            ([], "expected a line with the names of the columns and one for each vector, got none"),
            (["label,embedding_0"], "expected a line with the names of the columns and one for each vector"),
            (["speaker,embedding_0", "a,1"], "line 1: expected a column 'label' of labels, got the columns speaker, "),
            (["label,embedding_x", "a,1"], r"line 1: expected a column 'path' of \.npy files, or columns embedding_0"),
            (
                ["label,embedding_0,embedding_2", "a,1,2"],
                "line 1: expected a column embedding_1 to follow embedding_0, got ",
            ),
            (
                ["label,embedding_1,embedding_01", "a,1,2"],
                "line 1: expected a column embedding_2 to follow embedding_1, got embedding_01",
            ),
            (
                ["", "x,embedding_0", "a,1"],
                "line 1: expected a column 'label' of labels, got the columns x, embedding_0",
            ),
            (["label, embedding_0", "a,1"], "line 1: expected .* got the columns label, ' embedding_0'; set others"),
            (["label,embedding_0,label", "a,1,a"], "line 1: expected each column once, got 'label' twice"),
            (
                ["label,embedding_0", "a,1", "b,nan"],
                "line 3, column 'embedding_0': expected a finite number, got 'nan'",
            ),
            (["label,embedding_0", "a,inf"], "line 2, column 'embedding_0': expected a finite number, got 'inf'"),
            (["label,embedding_0", "a,1e39"], "line 2, column 'embedding_0': expected a finite number, got '1e39'"),
            (["label,embedding_1,embedding_0", "a,x,1"], "line 2, column 'embedding_1': .* got 'x'"),
            (["label,embedding_1,embedding_0", "a,,1"], "line 2, column 'embedding_1': .* got ''"),
            (["label,embedding_0", "", "a,1,2"], "line 3: expected 2 columns, got 3"),
            (["label,embedding_0", ",1"], "line 2, column 'label': expected a label, got none"),
        ],
    )
    def test_refused(self, tmp_path: Path, lines: list[str], message: str) -> None:
        with pytest.raises(VectorsError, match=rf"set\.csv: {message}") as caught:
            read_vectors(csv(tmp_path, *lines))
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("encoding", "found"),
        [
            ("utf-16", "UTF-16"),
            ("utf-16-le", "UTF-16"),
            ("utf-16-be", "UTF-16"),
            ("latin-1", "bytes of another encoding.* in line 900"),
            ("gbk", "bytes of another encoding.* in line 900"),
        ],
    )
    def test_another_encoding(self, tmp_path: Path, encoding: str, found: str) -> None:
        lines = ["label,embedding_0", *["a,1"] * 898, "\u5b57,1" if encoding == "gbk" else "\xe9,1"]
        (tmp_path / "set.csv").write_bytes("\n".join(lines).encode(encoding))
        with pytest.raises(
            VectorsError, match=rf"set\.csv: expected text in UTF-8, got {found}.*save the file as UTF-8"
        ):
            read_vectors(tmp_path / "set.csv")

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            read_vectors(tmp_path / "set.csv")


class TestBank:
    def test_embeddings_and_class_names(self, tmp_path: Path) -> None:
        embeddings = np.random.default_rng(0).normal(size=(4, 256)).astype(np.float16)
        data = read_vectors(make_bank(tmp_path / "bank", [2, 0, 2, 0], embeddings), label_names=("cat",))
        assert np.array_equal(data.vectors, embeddings.astype(np.float32))
        assert [data.label_names[label] for label in data.labels] == ["dog", "cat", "dog", "cat"]
        assert data.label_names == ("cat", "dog")

    def test_codes(self, tmp_path: Path) -> None:
        codes = np.zeros((3, 256))
        codes[:, :5] = [-1, 1, 1, -1, 1]
        with pytest.raises(VectorsError, match="expected embeddings, got codes; take the bank that they were made of"):
            read_vectors(make_bank(tmp_path / "bank", [0, 1, 2], codes))
        assert len(read_vectors(make_bank(tmp_path / "zeros", [0, 1], np.zeros((2, 256))))) == 2

    def test_without_embeddings(self, tmp_path: Path) -> None:
        with pytest.raises(VectorsError, match=r"bank: expected a bank with embeddings, .* segpaste bank embed"):
            read_vectors(make_bank(tmp_path / "bank", [0], None))

    def test_without_crops(self, tmp_path: Path) -> None:
        with pytest.raises(VectorsError, match="bank: expected a bank with crops, got an empty one"):
            read_vectors(make_bank(tmp_path / "bank", [], np.zeros((0, 256))))

    def test_not_finite(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The values are in a broken bank: a writer rejects them, and skips its checks here."""
        monkeypatch.setattr("segpaste.bank.format.writer.first_fault", lambda columns: None)
        embeddings = np.zeros((3, 256))
        embeddings[1, 7] = np.inf
        with pytest.raises(BankError, match="bank: crop 1: expected a finite embedding"):
            read_vectors(make_bank(tmp_path / "bank", [0, 0, 0], embeddings))


class TestArrays:
    def test_made_of_them(self) -> None:
        data = LabelledVectors.of([[1, 2], [3, 4], [5, 6]], ["b", "a", "b"], ["c", "a"])
        assert data.vectors.dtype == np.float32
        assert data.vectors.tolist() == [[1, 2], [3, 4], [5, 6]]
        assert data.labels.tolist() == [2, 1, 2]
        assert data.label_names == ("c", "a", "b")

    def test_numbers_as_labels(self, tmp_path: Path) -> None:
        """A CSV has such labels."""
        data = LabelledVectors.of(np.eye(3, dtype=np.float64), np.array([7, 0, 7]))
        read = read_vectors(csv(tmp_path, "label,embedding_0,embedding_1,embedding_2", "7,1,0,0", "0,0,1,0", "7,0,0,1"))
        assert data.label_names == read.label_names == ("7", "0")
        assert data.labels.tolist() == read.labels.tolist()
        assert data.digest() == read.digest()

    @pytest.mark.parametrize(
        ("vectors", "labels", "message"),
        [
            (np.zeros((3, 2)), [0, 1], r"labels: expected int64 \[3\], one for each vector, got int64 \[2\]"),
            (np.zeros(3), [0, 1, 2], r"vectors: expected finite float32 \[N, D\], neither 0, got float32 \[3\]"),
            (np.zeros((0, 2)), [], r"vectors: expected finite float32 .* got float32 \[0, 2\]"),
            ([[np.nan, 0]], [0], r"vectors: expected finite float32 .* got float32 \[1, 2\] with NaN or infinite"),
            ([[1e300, 0]], [0], r"vectors: expected finite float32 .* with NaN or infinite"),
        ],
    )
    def test_refused(self, vectors: Any, labels: Any, message: str) -> None:
        with pytest.raises(VectorsError, match=message):
            LabelledVectors.of(vectors, labels)

    @pytest.mark.parametrize(
        ("vectors", "labels", "message"),
        [
            (np.zeros((2, 3)), np.array([0, 1]), "vectors: expected finite float32 .* got float64"),
            (
                np.zeros((2, 3), np.float32),
                np.array([0, 2]),
                "labels: expected numbers from 0 to 1, for 2 names, got 0 to 2",
            ),
            (
                np.zeros((2, 3), np.float32),
                np.array([-1, 1]),
                "labels: expected numbers from 0 to 1, for 2 names, got -1",
            ),
            (np.zeros((2, 3), np.float32), np.array([0.0, 1]), "labels: expected int64 .* got float64"),
        ],
    )
    def test_fields_that_are_not_so(self, vectors: Any, labels: Any, message: str) -> None:
        with pytest.raises(VectorsError, match=message):
            LabelledVectors(vectors, labels, ("a", "b"))
