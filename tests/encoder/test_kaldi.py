"""Kaldi's archives and script files: bytes that kaldi_native_io wrote, random ones, and broken ones."""

from __future__ import annotations

import resource
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segpaste.encoder import VectorsError, read_vectors
from segpaste.encoder.kaldi import read_kaldi, read_speakers
from segpaste.encoder.vectors import read_named

ANNA = b"anna-1 \0BFV \x04\x03\0\0\0\0\0\xc0?\0\0\0\xc0\0\0\x80>"
BEN = b"ben-1 \0BDV \x04\x03\0\0\0\0\0\0\0\0\0\xe0?\0\0\0\0\0\0\x10@\0\0\0\0\0\0 \xc0"
ROW = b"cy-1 \0BDM \x04\x01\0\0\0\x04\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xf0?\0\0\0\0\0\0\0@"
MATRIX = b"dee-1 \0BFM \x04\x02\0\0\0\x04\x03\0\0\0\0\0\0\0\0\0\x80?\0\0\0@\0\0@@\0\0\x80@\0\0\xa0@"
TEXT = b"anna-1  [ 1.5 -2 0.25 ]\nben-1  [ 1e-07 4 -8e+09 ]\n"
TEXT_MATRIX = b"dee-1  [\n  0 1 2 \n  3 4 5 ]\n"
"""All as kaldi_native_io 1.23 writes them, which is Kaldi's own code; numbers by `struct` in `test_what_is_written`."""

EXPECTED = {
    ANNA: [[1.5, -2, 0.25]],
    BEN: [[0.5, 4, -8]],
    ROW: [[0, 1, 2]],
    MATRIX: [[0, 1, 2], [3, 4, 5]],
    TEXT: [[1.5, -2, 0.25], [1e-7, 4, -8e9]],
    TEXT_MATRIX: [[0, 1, 2], [3, 4, 5]],
}


@pytest.fixture
def ark(tmp_path: Path) -> Path:
    """Two utterances."""
    (tmp_path / "x.ark").write_bytes(ANNA + BEN)
    (tmp_path / "utt2spk").write_text("anna-1 anna\nzoe-1 zoe\nben-1\tben\n")
    return tmp_path / "x.ark"


class TestArchive:
    @pytest.mark.parametrize("content", EXPECTED, ids=lambda content: content[:12].decode())
    def test_as_kaldi_writes_it(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "x.ark").write_bytes(content)
        found = read_kaldi(tmp_path / "x.ark")
        assert found.vectors.dtype == np.float32
        assert found.vectors.tolist() == np.array(EXPECTED[content], np.float32).tolist()
        assert len(found.ids) == len(found.vectors)
        assert found.ids[0] == content.split()[0].decode()

    def test_entries_of_all_kinds(self, tmp_path: Path) -> None:
        (tmp_path / "x.ark").write_bytes(ANNA + TEXT_MATRIX.replace(b"dee", b"eve") + BEN + MATRIX)
        found = read_kaldi(tmp_path / "x.ark")
        assert found.ids == ["anna-1", "eve-1", "eve-1", "ben-1", "dee-1", "dee-1"]
        assert found.vectors.tolist() == [[1.5, -2, 0.25], [0, 1, 2], [3, 4, 5], [0.5, 4, -8], [0, 1, 2], [3, 4, 5]]

    @given(st.data())
    def test_what_is_written(self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
        """The writer of this test packs number by number."""
        num_columns = data.draw(st.integers(1, 5))
        number = st.floats(-(2.0**100), 2.0**100, width=32)
        content, ids, expected = b"", [], []
        for index in range(data.draw(st.integers(1, 5))):
            rows = data.draw(
                st.lists(st.lists(number, min_size=num_columns, max_size=num_columns), min_size=1, max_size=3)
            )
            kind = data.draw(st.sampled_from("FDT"))
            name = data.draw(st.text("abc\xe9\u5b57-_:]", min_size=1, max_size=4)) + str(index)
            is_matrix = len(rows) > 1 or data.draw(st.booleans())
            content += name.encode() + b" "
            if kind == "T":
                lines = [" ".join(map(repr, row)) for row in rows]
                content += b" [" + (b"\n" if is_matrix else b" ") + " \n".join(lines).encode() + b" ]\n"
            else:
                sizes = ([len(rows)] if is_matrix else []) + [num_columns]
                content += b"\0B" + kind.encode() + (b"M " if is_matrix else b"V ")
                content += b"".join(b"\4" + struct.pack("<i", size) for size in sizes)
                content += b"".join(struct.pack("<f" if kind == "F" else "<d", x) for row in rows for x in row)
            ids += [name] * len(rows)
            expected += rows
        path = tmp_path_factory.mktemp("kaldi") / "x.ark"
        path.write_bytes(content)
        found = read_kaldi(path)
        assert found.ids == ids
        assert found.vectors.tolist() == expected

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "expected a vector for each utterance, got an empty file"),
            (b"\n", "expected a vector for each utterance, got an empty file"),
            (
                b"anna-1",
                "byte 0: expected the id of an utterance and a space, as in an archive of Kaldi, got b'anna-1'",
            ),
            (b"\x93NUMPY \0", "byte 0: expected the id of an utterance"),
            (ANNA + b"\0\0\0 ", "byte 29: expected the id of an utterance"),
            (b"anna-1 ", "utterance 'anna-1': expected a binary value, or numbers within"),
            (b"anna-1  [ 1 2", "utterance 'anna-1': expected a binary value, or numbers within"),
            (b"anna-1  1 2 ]", "utterance 'anna-1': expected a binary value, .* got b'1 2 ]' at byte 8"),
            (b"anna-1  [ ]\n", "utterance 'anna-1': expected rows of one length, got no numbers"),
            (b"anna-1  [\n 1 2\n 3 ]\n", "utterance 'anna-1': expected rows of one length, got 1, 2"),
            (b"anna-1  [ 1 x ]\n", "utterance 'anna-1': expected numbers within"),
            (b"anna-1  [ 1 nan ]\n", "utterance 'anna-1': expected finite numbers, got NaN"),
            (b"anna-1  [ 1 1e39 ]\n", "utterance 'anna-1': expected finite numbers"),
            (ANNA[:9] + b"CM " + ANNA[12:], "got a compressed matrix; write it with --compress=false"),
            (ANNA[:9] + b"XX " + ANNA[12:], "expected a vector or matrix of floats, got the type b'XX '"),
            (ANNA[:12] + b"\x08" + ANNA[13:], "expected sizes from 1, got 3; write the file again"),
            (ANNA[:13] + b"\0" + ANNA[14:], "expected sizes from 1, got 0; write the file again"),
            (ANNA[:16] + b"\xff" + ANNA[17:], "expected sizes from 1, got -16777213"),
            (ANNA[:16] + b"\x7f" + ANNA[17:], "expected 2,130,706,435 numbers, got a file that ends .* bytes before"),
            (MATRIX[:-1], "utterance 'dee-1': expected 6 numbers, got a file that ends 1 bytes before; write it again"),
            (ANNA + ANNA, "utterance 'anna-1': expected each utterance once, got it twice"),
            (ANNA + b"z  [ 1 2 ]\n", "utterance 'z': expected 3 numbers as in the utterances before, got 2"),
        ],
    )
    def test_refused(self, tmp_path: Path, content: bytes, message: str) -> None:
        (tmp_path / "x.ark").write_bytes(content)
        with pytest.raises(VectorsError, match=rf"x\.ark: .*{message}") as caught:
            read_kaldi(tmp_path / "x.ark")
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("content", [ANNA, BEN, MATRIX, TEXT, TEXT_MATRIX])
    def test_broken_off_anywhere(self, tmp_path: Path, content: bytes) -> None:
        """A prefix is an error, or has only whole utterances."""
        whole = EXPECTED[content]
        for num in range(len(content)):
            (tmp_path / "x.ark").write_bytes(content[:num])
            try:
                found = read_kaldi(tmp_path / "x.ark").vectors.tolist()
            except VectorsError:
                continue
            assert found == np.array(whole[: len(found)], np.float32).tolist()
            assert content.startswith(b"anna-1  [") or num == len(content) - 1

    @given(st.binary(max_size=60), st.integers(0, 40))
    def test_other_bytes(self, tmp_path_factory: pytest.TempPathFactory, content: bytes, at: int) -> None:
        path = tmp_path_factory.mktemp("kaldi") / "x.ark"
        path.write_bytes(ANNA[:at] + content)
        try:
            found = read_kaldi(path)
        except VectorsError:
            return
        assert np.isfinite(found.vectors).all()


class TestScript:
    def test_places_in_an_archive(self, ark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Relative to the working folder, as in Kaldi, else beside the script file."""
        (tmp_path / "t.ark").write_bytes(TEXT)
        (tmp_path / "file").write_bytes(BEN[6:])
        lines = ["b x.ark:35", f"a\t{ark}:7", "t  t.ark:30 ", "", "f file"]
        (tmp_path / "x.scp").write_text("\n".join(lines))
        for folder in (Path("/"), tmp_path):
            monkeypatch.chdir(folder)
            found = read_kaldi(tmp_path / "x.scp")
            assert found.ids == ["b", "a", "t", "f"]
            expected = [[0.5, 4, -8], [1.5, -2, 0.25], [1e-7, 4, -8e9], [0.5, 4, -8]]
            assert found.vectors.tolist() == np.array(expected, np.float32).tolist()

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("a", "line 1, utterance 'a': expected a place such as vectors.ark:27, got none"),
            ("a touch made |", "expected a place such as vectors.ark:27, got a command, which is not run"),
            ("a x.ark:7[0:1]", "got a range of a matrix; write it with copy-vector"),
            ("a x.ark:8", "line 1, utterance 'a', x.ark:8: expected a binary value, or numbers within"),
            ("a x.ark:999", "line 1, utterance 'a', x.ark:999: expected a binary value, .* got b'' at byte 999"),
            ("a x.ark:7\na x.ark:35", "line 2, utterance 'a': expected each utterance once, got it twice"),
            ("\xe9 x.ark:7", "expected text in UTF-8, got bytes of another encoding"),
        ],
    )
    def test_refused(self, ark: Path, line: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(ark.parent)
        ark.with_suffix(".scp").write_bytes(line.encode("latin-1"))
        with pytest.raises(VectorsError, match=rf"x\.scp: .*{message}"):
            read_kaldi(ark.with_suffix(".scp"))
        assert not Path("made").exists()

    def test_an_archive_that_is_not_there(self, tmp_path: Path) -> None:
        (tmp_path / "x.scp").write_text("a none.ark:7")
        with pytest.raises(FileNotFoundError, match=r"none\.ark"):
            read_kaldi(tmp_path / "x.scp")


def test_more_archives_than_files_may_be_open(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    for number in range(300):
        (tmp_path / str(number)).write_bytes(TEXT)
    places = (f"{number} {tmp_path / str(number)}:7\n" for number in range(300))
    (tmp_path / "x.scp").write_text("".join(places))
    resource.setrlimit(resource.RLIMIT_NOFILE, (250, before[1]))
    try:
        assert read_kaldi(tmp_path / "x.scp").vectors.tolist() == [[1.5, -2, 0.25]] * 300
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


class TestSpeakers:
    def test_are_the_labels(self, ark: Path, tmp_path: Path) -> None:
        data = read_vectors(ark, label_names=("ben",))
        assert data.label_names == ("ben", "anna")
        assert data.labels.tolist() == [1, 0]
        (tmp_path / "others").write_text("anna-1 x\nben-1 x\n")
        assert read_vectors(ark, utt2spk=tmp_path / "others").label_names == ("x",)
        assert read_named(ark, "id", "label", ("path", "v"), tmp_path / "others").labels == ["x", "x"]

    def test_a_matrix_has_one_speaker(self, ark: Path) -> None:
        ark.write_bytes(ANNA + MATRIX.replace(b"dee", b"zoe"))
        data = read_vectors(ark)
        assert [data.label_names[label] for label in data.labels] == ["anna", "zoe", "zoe"]
        message = "expected a vector for each utterance, got for 'zoe-1' a matrix of several"
        with pytest.raises(VectorsError, match=message):
            read_named(ark, "id", "label", ("path", "embedding_"))

    def test_only_training_needs_them(self, ark: Path) -> None:
        assert read_named(ark, "id", "label", ("path", "v")).labels == ["anna", "ben"]
        ark.with_name("utt2spk").unlink()
        assert read_named(ark, "id", "label", ("path", "v")).labels is None
        with pytest.raises(FileNotFoundError, match="utt2spk"):
            read_vectors(ark)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("a x\nb\n", "line 2: expected an utterance and its speaker, got 'b'"),
            ("a x\nb y z\n", "line 2: expected an utterance and its speaker, got 'b y z'"),
            ("a x\na y\n", "line 2: expected one speaker of 'a', got another one"),
            ("a x\n", "expected the speaker of each utterance, got none of 'b' and 1 other utterances"),
            ("a x\nc x\n", "expected the speaker of each utterance, got none of 'b'$"),
        ],
    )
    def test_refused(self, tmp_path: Path, text: str, message: str) -> None:
        (tmp_path / "utt2spk").write_text(text)
        with pytest.raises(VectorsError, match=f"utt2spk: {message}"):
            read_speakers(tmp_path / "utt2spk", ["a", "b", "c"])
