"""The HTML report; what `segpaste.viz` exports and what importing it loads."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from viz_cases import NAMES, full_sample

from segpaste import viz


class PageReader(HTMLParser):
    """Every start tag with its attributes, and the text outside style and script."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._raw = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._raw = tag in ("style", "script")

    def handle_endtag(self, tag: str) -> None:
        self._raw = False

    def handle_data(self, data: str) -> None:
        self.text += "" if self._raw else data


def make_items(evil: str = "cat") -> list[viz.ReportItem]:
    sample = full_sample()
    pictures = viz.compare(sample, sample, torch.tensor([False, True]), NAMES, tile_px=40)
    things = [
        viz.PastedObject(evil, f"{evil}.jpg", 0.5, True, area_px=1234, instance_id=2),
        viz.PastedObject("dog", "b.jpg", 1.25, False),
    ]
    return [
        viz.ReportItem(f"first {evil}", pictures, things, {"does_not_fit": 3, "hidden": 0, evil: 1}),
        viz.ReportItem("second", pictures),
        viz.ReportItem("counted only", (), things[1:], {"too_small": 2}),
    ]


class TestReport:
    def read(self, path: Path) -> PageReader:
        reader = PageReader()
        reader.feed(path.read_text(encoding="utf-8"))
        return reader

    def test_the_page_says_everything(self, tmp_path: Path) -> None:
        summary = {"images": 1234567, "images per second": 12.3456, "compiled": True, "mode": "instance"}
        page = self.read(viz.write_html_report(tmp_path / "r.html", make_items(), summary, "A run"))
        for expected in ("A run", "1,234,567", "12.3", "yes", "instance", "3 objects in 3 images", "b.jpg", "1,234"):
            assert expected in page.text
        assert "Tried and not pasted: 6" in page.text
        assert "does not fit" in page.text
        assert "hidden" not in page.text
        assert page.text.count("Nothing was pasted.") == 1
        assert sum(tag == "article" for tag, _ in page.tags) == 2

    def test_text_is_escaped_everywhere(self, tmp_path: Path) -> None:
        evil = "<script>alert('x')</script>\"&"
        path = viz.write_html_report(tmp_path / "r.html", make_items(evil), {evil: evil}, evil)
        page = self.read(path)
        assert "<script>alert" not in path.read_text(encoding="utf-8")
        assert sum(tag == "script" for tag, _ in page.tags) == 1
        assert page.text.count("alert('x')") >= 8
        assert any(evil in (attrs.get("alt") or "") for _, attrs in page.tags)

    def test_evil_titles_of_views(self, tmp_path: Path) -> None:
        picture = np.zeros((4, 4, 3), np.uint8)
        item = viz.ReportItem("a", [viz.Comparison('"><b>', picture, picture)])
        page = self.read(viz.write_html_report(tmp_path / "r.html", [item], {}, "t"))
        assert not any(tag == "b" for tag, _ in page.tags)
        assert [a["data-view"] for _, a in page.tags if "data-view" in a] == ['"><b>', '"><b>']

    def test_it_loads_nothing_from_outside(self, tmp_path: Path) -> None:
        path = viz.write_html_report(tmp_path / "r.html", make_items(), {}, "t")
        page = self.read(path)
        loaded = [attrs[name] for _, attrs in page.tags for name in ("src", "href") if name in attrs]
        assert loaded
        assert all(url.startswith("data:image/jpeg;base64,") for url in loaded)
        assert not re.search(r"https?://|@import|url\(", path.read_text(encoding="utf-8"))
        policy = next(a["content"] for t, a in page.tags if t == "meta" and "http-equiv" in a)
        assert policy.startswith("default-src 'none'")

    def test_pictures_of_noise(self, tmp_path: Path) -> None:
        """Their files are larger than one byte a pixel."""
        noise = np.random.default_rng(0).integers(0, 256, (400, 400, 3), np.uint8)
        item = viz.ReportItem("a", [viz.Comparison("image", noise, noise)])
        page = self.read(viz.write_html_report(tmp_path / "r.html", [item], {}, "t", picture_px=400))
        assert min(len(attrs["src"]) for tag, attrs in page.tags if tag == "img") > 4 / 3 * 400 * 400

    def test_pictures_are_inside_and_shrunk(self, tmp_path: Path) -> None:
        import base64

        page = self.read(viz.write_html_report(tmp_path / "r.html", make_items(), {}, "t", picture_px=20))
        images = [attrs for tag, attrs in page.tags if tag == "img"]
        assert len(images) == 2 * 2 * 6
        with Image.open(BytesIO(base64.b64decode(images[0]["src"].split(",", 1)[1]))) as image:
            assert max(image.size) == 20
            assert (str(image.width), str(image.height)) == (images[0]["width"], images[0]["height"])

    def test_the_same_input_gives_the_same_bytes(self, tmp_path: Path) -> None:
        first = viz.write_html_report(tmp_path / "a.html", make_items(), {"n": 1}, "t").read_bytes()
        assert first == viz.write_html_report(tmp_path / "b.html", iter(make_items()), {"n": 1}, "t").read_bytes()
        assert first != viz.write_html_report(tmp_path / "c.html", make_items(), {"n": 2}, "t").read_bytes()

    def test_no_items(self, tmp_path: Path) -> None:
        page = self.read(viz.write_html_report(tmp_path / "r.html", [], {}, "Nothing"))
        assert "0 objects in 0 images" in page.text
        assert "Nothing was pasted." in page.text
        assert "No paste was dropped." in page.text

    def test_a_failure_leaves_no_file(self, tmp_path: Path) -> None:
        def items() -> Iterator[viz.ReportItem]:
            yield make_items()[0]
            raise RuntimeError("broken photo")

        with pytest.raises(RuntimeError, match="broken photo"):
            viz.write_html_report(tmp_path / "r.html", items(), {}, "t")
        assert os.listdir(tmp_path) == []


class TestExports:
    def test_every_name_resolves(self) -> None:
        for name in viz.__all__:
            assert getattr(viz, name) is not None
        assert viz.__all__ == sorted(viz.__all__)
        with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
            viz.nonsense  # noqa: B018

    def test_importing_loads_neither_pillow_nor_the_drawings(self) -> None:
        code = "import sys, segpaste.viz; print('PIL' in sys.modules, 'segpaste.viz.overlay' in sys.modules)"
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert out.stdout.split() == ["False", "False"]
