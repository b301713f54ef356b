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

from headless_browser import Browser, find_browser
from segpaste import viz
from segpaste.viz import _report_cards


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

    def test_classes_before_and_after(self, tmp_path: Path) -> None:
        things = [viz.PastedObject("cat", "a.jpg", 0.5, True), viz.PastedObject("cat", "b.jpg", 1.0, False)]
        items = [
            viz.ReportItem("a", (), things, {"hidden": 4}, {"cat": 1, "dog": 20}, {"cat": 3, "dog": 19}),
            viz.ReportItem("b", (), (), {"too_small": 7}, {"dog": 300}, {"dog": 300}),
        ]
        path = viz.write_html_report(tmp_path / "r.html", items, {}, "t", advice={"hidden": "look behind"})
        rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>.*?</tr>", path.read_text())]
        words = [[cell for cell in row if "<" not in cell] for row in rows]
        assert words[0] == ["class", "before", "pasted", "", "after", "sources", "scale", "flipped"]
        assert words[1] == ["cat", "1", "2", "3", "2", "0.50 to 1.00", "50 %"]
        assert words[2] == ["dog", "320", "0", "319", "", "", ""]
        assert words[3:] == [
            ["reason", "pastes", "", "what helps"],
            ["too small", "7", ""],
            ["hidden", "4", "look behind"],
        ]

    def test_lost_objects(self, tmp_path: Path) -> None:
        lost = [("cat", "hidden"), ("dog", "too_small"), ("dog", "too_small")]
        picture = np.zeros((4, 4, 3), np.uint8)
        views = [viz.Comparison("image", picture, picture)]
        items = [
            viz.ReportItem("a", views, (), {}, {"cat": 1, "dog": 20}, {"dog": 18}, lost),
            viz.ReportItem("b", (), (), {}, {"cat": 9}, {"cat": 8}, lost[:1]),
        ]
        path = viz.write_html_report(tmp_path / "r.html", items, {}, "t", lost_advice={"hidden": "hide less"})
        rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>.*?</tr>", path.read_text())]
        words = [[cell for cell in row if "<" not in cell] for row in rows]
        assert words[0][:5] == ["class", "before", "pasted", "", "lost"]
        assert [row[:5] for row in words[1:3]] == [["dog", "20", "0", "2", "18"], ["cat", "10", "0", "2", "8"]]
        assert words[3:] == [
            ["reason", "objects", "", "what helps"],
            ["hidden", "2", "hide less"],
            ["too small", "2", ""],
        ]
        page = self.read(path)
        assert "Objects of the images that were lost: 4 (13.3%)" in page.text
        assert "Lost: cat, hidden, dog, too small (2)" in page.text

    def test_pixels_are_named(self, tmp_path: Path) -> None:
        item = viz.ReportItem("a", (), (), {}, {"sky": 5}, {"sky": 7})
        page = self.read(viz.write_html_report(tmp_path / "r.html", [item], {}, "t", counted="pixels"))
        assert "before, pixels" in page.text

    def test_it_says_how_many_images_are_shown(self, tmp_path: Path) -> None:
        page = self.read(viz.write_html_report(tmp_path / "r.html", make_items(), {}, "t"))
        assert "2 of 3 images shown" in page.text
        cards = [attrs["data-classes"] for tag, attrs in page.tags if tag == "article"]
        options = [attrs["value"] for tag, attrs in page.tags if tag == "option"]
        assert options == ["", "0", "1"]
        assert "all classesdogcat" in page.text  # the most pasted first
        assert cards == ["1 0", ""]

    @pytest.mark.parametrize("kind", ["pictures", "objects", "classes", "pictures and classes"])
    def test_it_stays_below_three_megabytes(self, tmp_path: Path, kind: str) -> None:
        """This holds whatever there is most of; noise gives the largest pictures."""
        rng = np.random.default_rng(0)
        noise = rng.integers(0, 256, (300, 400, 3), np.uint8)
        picture = noise if "pictures" in kind else noise[:8, :8]
        views = [viz.Comparison(title, picture, picture[::-1]) for title in ("image", "instances")]
        names = [f"class {i} of a long name" for i in range(20_000 if "classes" in kind else 3)]
        thing = viz.PastedObject("cup", "photo.jpg", 1.0, False, 99, 3)
        things = [thing] * (200 if kind == "objects" else 2)
        item = viz.ReportItem("image", views, things, {"hidden": 2}, dict.fromkeys(names, 1), dict.fromkeys(names, 2))
        num = {"objects": 450, "classes": 40}.get(kind, 120)
        path = viz.write_html_report(tmp_path / "r.html", (item for _ in range(num)), {}, "t")
        shown = int(re.findall(rf"([\d,]+) of {num} images shown", path.read_text())[0])
        assert path.stat().st_size < 3_000_000
        assert path.read_text().count("<article") == shown
        assert shown >= {"objects": 100, "classes": 40}.get(kind, 20)
        assert (kind == "classes") == (shown == num)

    def test_pictures_shrink_before_any_is_left_out(self, tmp_path: Path) -> None:
        noise = np.random.default_rng(0).integers(0, 256, (600, 600, 3), np.uint8)
        items = [viz.ReportItem("a", [viz.Comparison("image", noise, noise)])] * 8
        page = self.read(viz.write_html_report(tmp_path / "r.html", items, {}, "t"))
        assert "8 of 8 images shown" in page.text
        widths = {attrs["width"] for tag, attrs in page.tags if tag == "img"}
        assert len(widths) == 1
        assert int(widths.pop() or 0) in (320, 420, 520)

    def test_pictures_of_a_known_number_are_encoded_once(self, tmp_path: Path) -> None:
        """All have the size that the first one needs; without the number, they are encoded again at each size."""
        rng = np.random.default_rng(0)
        picture = rng.integers(0, 256, (150, 150, 3), np.uint8).repeat(4, 0).repeat(4, 1)
        items = [viz.ReportItem("a", [viz.Comparison("image", picture, picture)])] * 12
        encoded, pages = [], []
        real = _report_cards.Cards._encoded
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_report_cards.Cards, "_encoded", lambda *args: encoded.append(1) or real(*args))
            for num in (None, len(items)):
                encoded.clear()
                page = viz.write_html_report(tmp_path / "r.html", items, {}, "t", num_pictured=num)
                pages.append((len(encoded), page.stat().st_size, self.read(page)))
        (again, _, first), (once, size, second) = pages
        assert once <= 2 * (12 + 4) < again
        assert size < 3_000_000
        assert all("12 of 12 images shown" in page.text for page in (first, second))
        assert len({attrs["width"] for tag, attrs in second.tags if tag == "img"}) == 1

    @pytest.mark.skipif(find_browser() is None, reason="no Chromium: apt-get install chromium-headless-shell")
    def test_a_view_per_class(self, tmp_path: Path) -> None:
        path = viz.write_html_report(tmp_path / "r.html", make_items(), {}, "t")
        with Browser(find_browser() or "", 375, 700) as browser:
            browser.open(path.as_uri())
            browser.until("document.querySelectorAll('.views button[aria-pressed=true]').length")
            choose = "const s = document.querySelector('select'); s.value = '{}'; s.dispatchEvent(new Event('change'))"
            cards = "document.querySelectorAll('.card:not([hidden])').length"
            shown = f"[document.querySelector('.shown').textContent, {cards}]"
            assert browser.js(shown) == ["2 of 3 images shown", 2]
            browser.js(f"{{{choose.format(0)}}}")
            assert browser.js(shown) == ["1 of 3 images shown", 1]
            browser.js(f"{{{choose.format('')}}}")
            assert browser.js(shown) == ["2 of 3 images shown", 2]
            assert browser.js("document.scrollingElement.scrollWidth") == 375
            assert browser.errors == []

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
