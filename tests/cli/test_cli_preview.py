"""`segpaste preview`: options, the dataset behind the page, the copies, and the server."""

from __future__ import annotations

import base64
import contextlib
import http.client
import io
import json
import os
import shlex
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli_world import one_error, read_pixels, write_instances, write_panoptic
from numpy.typing import NDArray
from PIL import Image

from fresh_process import start_command
from segpaste import BatchCopyPaste
from segpaste.augmenting import settings
from segpaste.augmenting.preview import DatasetStudio
from segpaste.cli import main, parse, preview
from segpaste.seeding import key_tensors
from segpaste.types import BatchedDenseSample, Modality
from segpaste.types.rows import row_sample
from segpaste.viz.preview.controls import Control, controls_of
from segpaste.viz.preview.rendering import draw_of, render, setup_of
from segpaste.viz.preview.serving import PageRequest, make_server, respond

Values = dict[str, Any]
SIZE = (40, 60)


def studio_of(*words: str) -> DatasetStudio:
    return preview.open_studio(parse(["preview", *words]))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    labels, images = write_instances(tmp_path_factory.mktemp("world"))
    return [str(labels), "--images", str(images)]


@pytest.fixture(scope="module")
def studio(world: list[str]) -> DatasetStudio:
    return studio_of(*world)


@pytest.fixture(scope="module")
def scenes() -> DatasetStudio:
    return studio_of("--size", "48")


def pixels_of(url: str) -> NDArray[np.uint8]:
    start, _, text = url.partition(",")
    assert start == "data:image/png;base64"
    return np.array(Image.open(io.BytesIO(base64.b64decode(text))))


def answer(studio: DatasetStudio, values: Values | None = None, **asked: Any) -> dict[str, Any]:
    found = render(studio, {"values": values or {}, **asked})
    assert "errors" not in found, found["errors"]
    return found


def words_of(command: str) -> list[str]:
    return shlex.split(command.replace("\\\n", ""))


CHANGES: dict[str, Values] = {
    "defaults": {},
    "layers": {"placement.layers": 2, "placement.scale_range": [0.4, 0.9], "min_area_px": 2},
    "objects": {"placement.grouping": "instance", "placement.layers": 3, "source.whole_only": False},
    "own": {"source.kind": "same_image", "source.whole_only": False, "placement.max_attempts": 4},
    "sizes": {"placement.grouping": "instance", "placement.size_range": {"low": 3, "high": 6}},
    "colours": {"harmonize.prob": 1.0, "harmonize.mode": "multiband", "antialias": False},
    "tables": {"placement.grouping": "instance", "placement.class_sizes": "{1: {low: 2, high: 4}}"},
}


class TestPicture:
    @pytest.mark.parametrize("name", CHANGES)
    def test_it_is_the_image_that_the_command_writes(
        self, studio: DatasetStudio, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = answer(studio, CHANGES[name], image=3, seed=11, overlay=False)
        monkeypatch.chdir(tmp_path)
        words = words_of(found["copies"]["command"])
        assert words[0] == "segpaste"
        with contextlib.redirect_stdout(io.StringIO()):
            assert main([*words[1:], "--gallery", "0"]) == 0
        name = found["note"].split()[0]
        written = read_pixels(tmp_path / "augmented" / "images" / name)
        shown = pixels_of(found["after"])
        factor = shown.shape[0] // written.shape[0]
        np.testing.assert_array_equal(shown[::factor, ::factor], written)
        before = pixels_of(found["before"])[::factor, ::factor]
        np.testing.assert_array_equal(before, read_pixels(Path(studio.options.images_dir) / "p3.png"))
        assert (before != written).any() == (found["report"]["placed"] > 0)

    def test_something_is_pasted(self, studio: DatasetStudio) -> None:
        placed = [answer(studio, CHANGES["objects"], image=3, seed=seed)["report"]["placed"] for seed in range(4)]
        assert max(placed) > 1

    def test_padding_alone_changes_nothing(self, studio: DatasetStudio) -> None:
        """The help of the option says so, because a user would otherwise take it for a defect."""
        plain, padded = (answer(studio, {"placement.pad_to_multiple": side}, image=3) for side in (None, 37))
        assert plain["report"]["placed"] > 0
        assert plain["after"] == padded["after"]
        (control,) = (c for c in setup_of(studio)["controls"] if c["key"] == "placement.pad_to_multiple")
        assert "this option alone moves nothing" in control["note"]

    @pytest.mark.parametrize("name", ["defaults", "own", "colours"])
    def test_it_is_what_the_copied_program_pastes(self, tmp_path: Path, name: str) -> None:
        """Two photos of one size: the other one is the source, as in a batch of two."""
        labels, images = write_instances(tmp_path, (SIZE, SIZE))
        studio = studio_of(str(labels), "--images", str(images), "source.whole_only=false")
        changes = {"placement.hflip_probability": 0.3, **CHANGES[name]}
        for seed in range(3):
            found = answer(studio, changes, image=0, seed=seed, overlay=False)
            program: dict[str, Any] = {}
            exec(found["copies"]["python"], program)
            config = program["config"]
            pasted = studio.paste(draw_of(studio, {"values": changes, "seed": seed}), config)
            sequence = studio._paster(draw_of(studio, {"seed": seed}), config).sequence
            keys = [sequence.pick(sequence.position_of(0)).key, sequence.pick(sequence.position_of(1)).key]
            photos = studio.inputs.photos.dataset
            batch = BatchedDenseSample.from_samples([photos[0], photos[1]]).to_padded(8, **key_tensors(keys))
            augment = program["augment"]
            assert isinstance(augment, BatchCopyPaste)
            sample = row_sample(augment(batch))
            np.testing.assert_array_equal(pasted.after.image.numpy(), sample.image.numpy())
            assert torch.equal(pasted.after.labels, sample.labels)
            factor = found["width"] // SIZE[1]
            shown = pixels_of(found["after"])[::factor, ::factor].transpose(2, 0, 1)
            np.testing.assert_array_equal(shown, sample.image.numpy())

    def test_the_same_request_gives_the_same_picture(self, scenes: DatasetStudio) -> None:
        """Photos that stay in memory are not those that are pasted into."""
        first, second = (answer(scenes, image=2, seed=5) for _ in range(2))
        assert first["report"]["placed"] > 0
        assert (first["before"], first["after"]) == (second["before"], second["after"])
        assert first["after"] != answer(scenes, image=2, seed=6)["after"]
        assert first["before"] == answer(scenes, image=2, seed=6)["before"]

    @pytest.mark.parametrize("name", ["defaults", "objects", "colours"])
    def test_a_picture_takes_less_than_a_second(self, tmp_path: Path, name: str) -> None:
        """The time is that of this thread, whatever else the machine does."""
        labels, images = write_instances(tmp_path, ((480, 640),) * 4)
        studio = studio_of(str(labels), "--images", str(images))
        answer(studio, CHANGES[name], image=1)
        start = time.thread_time()
        answer(studio, CHANGES[name], image=1)
        assert time.thread_time() - start < 1

    def test_views_of_all_modalities(self, scenes: DatasetStudio) -> None:
        views = [view["name"] for view in answer(scenes)["views"]]
        assert views == [m.value for m in Modality if m is not Modality.IMAGE]
        pictures = {answer(scenes, view=view)["after"] for view in views}
        assert len(pictures) == len(views)
        assert answer(scenes, view="nonsense")["view"] == "instance"

    def test_names_and_overlay(self, scenes: DatasetStudio) -> None:
        for view in ("instance", "panoptic", "semantic"):
            pictures = {answer(scenes, view=view, **how)["after"] for how in ({}, {"names": False}, {"overlay": False})}
            assert len(pictures) == 3

    def test_panoptic_files(self, tmp_path: Path) -> None:
        labels, images, maps = write_panoptic(tmp_path)
        studio = studio_of(str(labels), "--images", str(images), "--panoptic-dir", str(maps))
        found = answer(studio, {"panoptic.tau_stuff_px": 3}, view="panoptic")
        assert found["view"] == "panoptic"
        assert "taxonomy" not in found["copies"]["yaml"]
        assert "classes={" in found["copies"]["python"]

    def test_objects_of_a_bank(self, world: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        bank = str(tmp_path / "bank")
        with contextlib.redirect_stdout(io.StringIO()):
            assert main(["bank", "build", *world, "--out", bank, "--min-area", "1"]) == 0
        studio = studio_of(*world, "--bank", bank, "source.crops_per_target=3")
        found = answer(studio, {"source.crops_per_target": 2}, overlay=False)
        assert found["report"]["tried"] >= 1
        assert "kind: bank" in found["copies"]["yaml"]
        assert "ultralytics_flip" not in studio.presets
        monkeypatch.chdir(tmp_path)
        with contextlib.redirect_stdout(io.StringIO()):
            assert main([*words_of(found["copies"]["command"])[1:], "--gallery", "0"]) == 0
        written = read_pixels(tmp_path / "augmented" / "images" / found["note"].split()[0])
        factor = found["width"] // written.shape[1]
        np.testing.assert_array_equal(pixels_of(found["after"])[::factor, ::factor], written)


class TestCopies:
    @pytest.mark.parametrize("preset", ["", "mmdet", "vit_patch", "classmix"])
    def test_they_give_the_configuration_of_the_picture(
        self, scenes: DatasetStudio, preset: str, tmp_path: Path
    ) -> None:
        changes: dict[str, Any] = {"max_hidden_frac": 0.4, "panoptic.tau_stuff_px": 9}
        config, schema = scenes.config(preset, changes), scenes.inputs.schema
        copies = answer(scenes, changes, preset=preset)["copies"]
        (tmp_path / "paste.yaml").write_text(copies["yaml"])
        assert settings.load_config(str(tmp_path / "paste.yaml"), {}, schema, every_image=True) == config
        assert "paste_prob" not in copies["yaml"]
        assert copies["yaml"].startswith("# A preset also has a jitter") == bool(preset)
        assert copies["python"].startswith("# The paste alone: dataset, jitter, seed and balance are in the command")
        program: dict[str, Any] = {}
        exec(copies["python"], program)
        assert program["config"] == config
        args = parse(words_of(copies["command"])[1:])
        assert settings.load_config(args.config, args.overrides, schema, args.preset, every_image=True) == config
        assert config.placement.paste_prob == 1
        assert (args.seed, args.preset or "") == (0, preset)

    def test_what_is_given_at_the_start_is_in_them(self, world: list[str], tmp_path: Path) -> None:
        (tmp_path / "c.yaml").write_text("tile_size: 64\nmin_area_px: 3\n")
        words = ["--config", str(tmp_path / "c.yaml"), "placement.layers=2", "--size", "64x48", "--seed", "7"]
        studio = studio_of(*world, *words)
        start = setup_of(studio)["start"]
        assert start["values"] == {"tile_size": 64, "min_area_px": 3, "placement.layers": 2}
        found = render(studio, start)
        assert found["copies"]["yaml"] == "tile_size: 64\nmin_area_px: 3\nplacement: {layers: 2}\n"
        args = parse(words_of(found["copies"]["command"])[1:])
        assert (args.size, args.seed) == ((48, 64), 7)


ABSURD = (1e18, 10**18, 10**60, -1, -1e18, float("nan"), float("inf"), 1e-300, 2.5, "", "not a number", None, True, [1])


def numbers() -> list[Control]:
    """Return the controls that hold numbers."""
    return [c for c in controls_of(has_bank=False, is_panoptic=False) if c.kind in ("number", "range")]


def _too_large(*_: Any) -> Any:
    raise MemoryError("Unable to allocate 14.6 GiB")


class TestRefusals:
    @pytest.mark.parametrize(
        ("asked", "key", "text"),
        [
            ({"image": 5}, "image", "from 1 to 5"),
            ({"image": -1}, "image", "from 1 to 5"),
            ({"image": True}, "image", "from 1 to 5"),
            ({"seed": 1 << 53}, "seed", "whole number"),
            ({"seed": "1"}, "seed", "whole number"),
            ({"preset": "nonsense"}, "preset", "mmdet"),
            ({"values": []}, "", "values by key"),
            ({"values": {"nonsense": 1}}, "", "key of a control"),
            ({"values": {"tile_size": 3}}, "", "key of a control"),
            ({"values": {"source.mask_from": "os:getcwd"}}, "source.mask_from", "boxes"),
            ({"values": {"placement.k_range": [2, 1]}}, "placement.k_range", "low <= high"),
            ({"values": {"placement.region": "{1: ["}}, "placement.region", "expected a value"),
            ({"values": {"placement.align": "instance"}}, "placement.align", "patch_aligned_paste=True"),
            ({"values": {"emit_depth": True}}, "emit_depth", "expected depth"),
            ({"values": {"emit_classmix": True}}, "emit_classmix", "expected semantic"),
            ({"values": {"max_instances": 1e18}}, "max_instances", "expected less than 32768, got 1e+18"),
            ({"values": {"placement.k_range": [1]}}, "placement.k_range", "expected two numbers, such as [1, 256]"),
            ({"values": {"placement.k_range": [1, 2, 3]}}, "placement.k_range", "expected two numbers"),
        ],
    )
    def test_one_line_beside_the_control(self, studio: DatasetStudio, asked: Values, key: str, text: str) -> None:
        (error,) = render(studio, asked)["errors"]
        assert error["key"] == key
        assert text in error["text"]
        assert "\n" not in error["text"]
        assert not error["text"].startswith("placement: ")

    @pytest.mark.parametrize("control", numbers(), ids=lambda control: control.key)
    def test_absurd_numbers(self, studio: DatasetStudio, control: Control) -> None:
        """Each is drawn, or one line beside its control says what was expected and what came."""
        for number in ABSURD:
            both = dict.fromkeys(control.parts, number) or [number, number]
            found = render(studio, {"values": {control.key: both if control.kind == "range" else number}})
            for error in found.get("errors", []):
                assert error["key"] == control.key
                assert ": expected " in error["text"]
                assert ", got " in error["text"]
                assert "\n" not in error["text"]
                assert len(error["text"]) < 250

    def test_more_slots_than_memory(self, studio: DatasetStudio, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("segpaste.types.rows._LARGE_BYTES", 0)
        monkeypatch.setattr("segpaste.types.rows.untouched", _too_large)
        (error,) = render(studio, {"values": {"max_instances": 30_000}})["errors"]
        assert error["key"] == "max_instances"
        assert "expected as many slots as fit into memory" in error["text"]
        assert "got 30000; use fewer" in error["text"]
        (error,) = render(studio, {})["errors"]
        assert (error["key"], error["text"][:40]) == ("", "expected an image that fits into memory,")

    def test_a_photo_that_cannot_be_read(self, tmp_path: Path) -> None:
        labels, images = write_instances(tmp_path)
        (images / "p1.png").write_bytes(b"none")
        studio = studio_of(str(labels), "--images", str(images), "placement.paste_prob=0")
        assert "errors" in render(studio, {"image": 1})

    def test_boxes_alone(self, tmp_path: Path) -> None:
        labels, images = write_instances(tmp_path)
        tables = json.loads(labels.read_text())
        for row in tables["annotations"]:
            row.pop("segmentation")
            row["bbox"] = [2, 2, 6, 6]
        labels.write_text(json.dumps(tables))
        studio = studio_of(str(labels), "--images", str(images))
        found = render(studio, {"image": 1})
        (error,) = found["errors"]
        assert error["key"] == "source.mask_from"
        assert "got boxes only" in error["text"]
        assert found["values"] == found["base"]
        answer(studio, {"source.mask_from": "boxes"}, image=1)

    def test_options_are_told_with_what_is_refused(self, studio: DatasetStudio) -> None:
        found = render(studio, {"values": {"placement.k_range": [2, 1], "placement.layers": 3}})
        assert found["values"]["placement.k_range"] == [2, 1]
        assert found["values"]["placement.layers"] == 3
        assert found["base"]["placement.layers"] == 1

    @pytest.mark.parametrize(
        ("words", "text"),
        [
            (["nowhere.json"], "nowhere.json"),
            (["--port", "70000"], "--port"),
            (["--preset", "nonsense"], "nonsense"),
            (["placement.layers=0"], "placement.layers"),
            (["--size", "64x48"], "--size"),
            (["--seed", str(1 << 53)], "--seed"),
            (["--backgrounds", "rooms"], "--bank"),
        ],
    )
    def test_bad_input_of_the_command(self, words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["preview", "--no-open", *words]) == 2
        assert text in one_error(capsys)

    def test_a_port_that_is_taken(self, capsys: pytest.CaptureFixture[str]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            assert main(["preview", "--no-open", "--port", port]) == 2
        assert f"--port: expected a free port, got {port}" in capsys.readouterr().err


LOCAL = {"host": "127.0.0.1:8765"}
JSON = {**LOCAL, "content-type": "application/json"}


class TestRespond:
    def test_the_page_and_its_files(self, scenes: DatasetStudio) -> None:
        page = respond(scenes, PageRequest("GET", "/", LOCAL))
        assert (page.status, page.kind) == (200, "text/html")
        text = page.body.decode()
        assert "http://" not in text.replace("http://www.w3.org", "")
        assert "https://" not in text
        for name in ("/preview.css", "/preview.js", "/options.js", "/report.js"):
            reply = respond(scenes, PageRequest("GET", name, LOCAL))
            assert reply.status == 200
            assert b"http" not in reply.body
        for name in ("/nonsense", "/../serving.py", "/page.html", "/render"):
            assert respond(scenes, PageRequest("GET", name, LOCAL)).status == 404

    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            (JSON, 200),
            ({**JSON, "host": "localhost"}, 200),
            ({**JSON, "host": "[::1]:99"}, 200),
            ({**JSON, "origin": "http://127.0.0.1:8765"}, 200),
            ({**JSON, "host": "evil.example:8765"}, 403),
            ({**JSON, "host": "["}, 403),
            ({"content-type": "application/json"}, 403),
            ({**JSON, "origin": "http://evil.example"}, 403),
            ({**JSON, "origin": "null"}, 403),
            ({**JSON, "origin": "http://127.0.0.1:1234"}, 403),
            ({**LOCAL, "content-type": "text/plain"}, 415),
            (LOCAL, 415),
        ],
    )
    def test_who_may_ask(self, studio: DatasetStudio, headers: dict[str, str], status: int) -> None:
        assert respond(studio, PageRequest("POST", "/render", headers, b"{}")).status == status

    @pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
    def test_what_is_no_request(self, studio: DatasetStudio, body: bytes) -> None:
        assert respond(studio, PageRequest("POST", "/render", JSON, body)).status == 400


@pytest.fixture
def port(studio: DatasetStudio) -> Iterator[int]:
    server = make_server(studio, 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


class TestServer:
    def ask(self, port: int, method: str, path: str, body: bytes | None = None, **headers: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        reply = connection.getresponse()
        found = reply.status, reply.headers, reply.read()
        connection.close()
        return found

    def test_a_picture(self, port: int) -> None:
        status, headers, body = self.ask(port, "POST", "/render", b"{}", Content_Type="application/json")
        assert status == 200
        assert json.loads(body)["report"]["tried"] >= 0
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert headers["X-Content-Type-Options"] == "nosniff"

    def test_refusals(self, port: int) -> None:
        assert self.ask(port, "GET", "/", Host="evil.example")[0] == 403
        assert self.ask(port, "GET", "/nothing")[0] == 404
        assert self.ask(port, "POST", "/render", Content_Length=str((1 << 20) + 1))[0] == 400
        assert self.ask(port, "POST", "/render", Content_Length="-1")[0] == 400
        assert self.ask(port, "DELETE", "/")[0] == 501

    def test_it_is_bound_to_this_machine_alone(self, studio: DatasetStudio) -> None:
        server = make_server(studio, 0)
        assert server.server_address[0] == "127.0.0.1"
        server.server_close()


def test_the_command_serves_until_an_interrupt(world: list[str]) -> None:
    process = start_command(["preview", *world, "--port", "0"])  # no terminal: no browser
    process.wait_until(lambda: "\n" in process.output())
    line = process.output().partition("\n")[0]
    address = line.split(" at ")[1].split()[0]
    connection = http.client.HTTPConnection(address.removeprefix("http://").rstrip("/"), timeout=60)
    connection.request("GET", "/")
    assert b"segpaste preview" in connection.getresponse().read()
    os.kill(process.pid, signal.SIGINT)
    done = process.wait()
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{line}\nstopped\n", "")
    assert "5 images" in line
