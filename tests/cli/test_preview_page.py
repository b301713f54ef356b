"""The preview page in a headless Chromium: pictures, sliders, errors, copies, keys, and a narrow window."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from headless_browser import Browser, find_browser
from segpaste.augmenting.preview import DatasetStudio
from segpaste.cli import parse, preview
from segpaste.viz.preview.rendering import render
from segpaste.viz.preview.serving import make_server

BROWSER = find_browser()
pytestmark = [
    pytest.mark.skipif(
        BROWSER is None, reason="no Chromium: apt-get install chromium-headless-shell, or SEGPASTE_CHROMIUM=PATH"
    ),
    pytest.mark.xdist_group("preview page"),  # one browser
]
READY = "document.getElementById('after')?.src && !document.body.hasAttribute('aria-busy')"


@pytest.fixture(scope="module")
def studio() -> DatasetStudio:
    return preview.open_studio(parse(["preview", "--size", "64"]))


@pytest.fixture(scope="module")
def address(studio: DatasetStudio) -> Iterator[str]:
    server = make_server(studio, 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://localhost:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert BROWSER is not None
    with Browser(BROWSER) as found:
        yield found


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Browser]:
    browser.resize(1440, 900)
    browser.open("about:blank")
    browser.open(address)
    browser.until(READY)
    yield browser
    errors, browser.errors = browser.errors, []
    assert errors == []


def move(page: Browser, selector: str, value: object, kind: str = "input") -> None:
    """Set an input as a user does, and wait for the answer of the server."""
    name = "checked" if isinstance(value, bool) else "value"
    page.js(
        f"(() => {{ const input = document.querySelector({json.dumps(selector)}); input.{name} = {json.dumps(value)};"
        f" input.dispatchEvent(new Event('{kind}', {{ bubbles: true }})); }})()"
    )
    settle(page)


def settle(page: Browser) -> None:
    """Wait until what was asked for is shown."""
    page.js("new Promise((done) => setTimeout(done, 100))")
    page.until(READY)


def text(page: Browser, selector: str) -> str:
    found: str = page.js(f"document.querySelector({json.dumps(selector)}).textContent")
    return found


def asked(page: Browser) -> dict[str, Any]:
    """Return the state that the page keeps in its address."""
    found: dict[str, Any] = json.loads(page.js("decodeURIComponent(location.hash.slice(1))"))
    return found


def option(key: str) -> str:
    return f"#option-{key.replace('.', '-')}"


class TestPage:
    def test_it_shows_what_the_server_draws(self, page: Browser, studio: DatasetStudio) -> None:
        expected = render(studio, asked(page))
        assert page.js("document.getElementById('after').src") == expected["after"]
        assert page.js("document.getElementById('before').src") == expected["before"]
        assert page.js("document.getElementById('after').naturalWidth") == expected["width"]
        assert text(page, "#number-placed") == str(expected["report"]["placed"])
        assert page.js("document.querySelectorAll('.option').length") > 40

    def test_a_slider_redraws_the_picture_in_time(self, page: Browser) -> None:
        before = page.js("document.getElementById('after').src")
        start = time.monotonic()
        move(page, f"{option('placement.paste_prob')} input[type=range]", 0)
        seconds = time.monotonic() - start
        assert text(page, "#number-tried") == "0"
        assert page.js("document.getElementById('after').src") != before
        assert text(page, "#text") == "placement: {paste_prob: 0.0}\n"
        assert seconds < 10, "one second on a machine that does nothing else"

    def test_each_kind_of_control_says_its_value(self, page: Browser) -> None:
        move(page, f"{option('placement.k_range')} .parts input:last-child", 3)
        move(page, f"{option('antialias')} [role=switch]", False, "change")
        move(page, f"{option('placement.grouping')} select", "1", "change")
        move(page, f"{option('placement.size_range')} .line > .switch", True, "change")
        move(page, f"{option('placement.region')} input[type=text]", "{0: [8, 9]}")
        values = asked(page)["values"]
        assert values.pop("placement.size_range").keys() == {"low", "high"}
        assert values == {
            "placement.k_range": [1, 3],
            "antialias": False,
            "placement.grouping": "instance",
            "placement.region": "{0: [8, 9]}",
        }
        assert "region:\n" in text(page, "#text")

    def test_a_slider_of_a_range_does_not_pass_the_other(self, page: Browser) -> None:
        low, high = (f"{option('placement.scale_range')} .dual input:{end}-child" for end in ("first", "last"))
        page.js(f"document.querySelector('{low}').focus()")
        move(page, low, 1000)
        assert asked(page)["values"]["placement.scale_range"] == [8, 8]
        page.js(f"document.querySelector('{high}').focus()")
        move(page, high, 0)
        assert asked(page)["values"]["placement.scale_range"] == [0.1, 0.1]

    def test_an_error_is_beside_its_control_until_it_is_mended(self, page: Browser) -> None:
        move(page, f"{option('placement.align')} select", "1", "change")
        error = f"{option('placement.align')} .error"
        assert "patch_aligned_paste=True" in text(page, error)
        assert not page.js(f"document.querySelector('{error}').hidden")
        assert page.js(f'document.querySelector("{option("placement.align")} select").ariaInvalid') == "true"
        assert page.js(f"document.querySelector('{error}').closest('details').open")
        move(page, f"{option('placement.align')} select", "0", "change")
        assert page.js(f"document.querySelector('{error}').hidden")
        assert not page.js("document.body.classList.contains('refused')")

    def test_a_page_that_begins_with_an_error(self, page: Browser, address: str) -> None:
        values = {"placement.align": "instance", "placement.layers": 3}
        page.open("about:blank")
        page.open(f"{address}#{quote(json.dumps({'values': values}))}")
        page.until("document.body?.classList.contains('refused') && !document.body.hasAttribute('aria-busy')")
        assert page.js(f'document.querySelector("{option("placement.layers")} input[type=range]").value') == "3"
        assert page.js(f'document.querySelector("{option("placement.layers")} .parts input").value') == "3"
        move(page, f"{option('placement.align')} select", "0", "change")
        assert not page.js("document.body.classList.contains('refused')")
        assert text(page, "#text") == "placement: {layers: 3}\n"

    def test_absurd_numbers_of_an_address(self, page: Browser, address: str) -> None:
        values = {"max_instances": 1e18, "placement.k_range": 5, "placement.size_range": 3}
        page.open("about:blank")
        page.open(f"{address}#{quote(json.dumps({'values': values}))}")
        page.until("document.body?.classList.contains('refused') && !document.body.hasAttribute('aria-busy')")
        slots = text(page, f"{option('max_instances')} .error")
        assert slots == f"max_instances: expected less than 32768, got {10**18}"
        assert "expected a list in brackets" in text(page, f"{option('placement.k_range')} .error")
        assert "no answer" not in text(page, "#status")

    @pytest.mark.parametrize(("typed", "got"), [("", "''"), ("1e400", "'not a number'"), ("-3", "-3"), ("2.5", "2.5")])
    def test_a_number_field_that_holds_no_count(self, page: Browser, typed: str, got: str) -> None:
        field = f"{option('placement.layers')} .parts input"
        page.js(f"document.querySelector('{field}').focus(); document.querySelector('{field}').select()")
        page.js(f"document.execCommand({json.dumps('insertText' if typed else 'delete')}, false, '{typed}')")
        settle(page)
        error = text(page, f"{option('placement.layers')} .error")
        assert error.startswith("placement.layers: expected ")
        assert error.endswith(f", got {got}")
        move(page, field, 2)
        assert text(page, f"{option('placement.layers')} .error") == ""
        assert text(page, "#text") == "placement: {layers: 2}\n"

    @pytest.mark.parametrize("typed", ["", "-1", "99999999999999999999"])
    def test_a_seed_that_is_none(self, page: Browser, typed: str) -> None:
        move(page, "#seed", typed)
        assert text(page, "#status").startswith("seed: expected a whole number from 0 to 9007199254740991, got ")
        assert text(page, "#status").endswith(typed or "none")
        assert asked(page)["seed"] == 0
        move(page, "#seed", "4")
        assert asked(page)["seed"] == 4
        assert not page.js("document.body.classList.contains('refused')")

    @pytest.mark.parametrize(
        "kept", ['{"values": {"nokey": 1}, "seed": -1, "image": 1e9, "preset": "none such"}', "5", "["]
    )
    def test_an_address_that_means_nothing_is_left_out(self, page: Browser, address: str, kept: str) -> None:
        page.open("about:blank")
        page.open(f"{address}#{quote(kept)}")
        page.until(READY)
        assert (asked(page)["values"], asked(page)["seed"], asked(page)["image"], asked(page)["preset"]) == (
            {},
            0,
            0,
            "",
        )

    def test_a_preset_and_back(self, page: Browser) -> None:
        move(page, "#preset", "vit_patch", "change")
        assert page.js(f'document.querySelector("{option("placement.pad_to_multiple")} .line > .switch").checked')
        page.js("document.querySelector('[data-copy=command]').click()")
        assert "--preset vit_patch" in text(page, "#text").replace("\\\n", "").replace("    ", " ")
        move(page, f"{option('placement.layers')} input[type=range]", 2)
        assert "placement.layers=2" in text(page, "#text")
        page.js(f'document.querySelector("{option("placement.layers")} .undo").click()')
        settle(page)
        assert asked(page)["values"] == {}
        page.js("document.querySelector('[data-copy=yaml]').click()")

    def test_images_and_draws(self, page: Browser) -> None:
        page.js("document.getElementById('next').click()")
        settle(page)
        assert asked(page)["image"] == 1
        page.js("document.getElementById('previous').click()")
        page.js("document.getElementById('previous').click()")
        settle(page)
        assert asked(page)["image"] == 199
        move(page, "#image", "7", "change")
        page.js("document.getElementById('draw').click()")
        settle(page)
        assert (asked(page)["image"], asked(page)["seed"]) == (6, 1)
        assert "scene 6" in text(page, "#status")

    def test_views(self, page: Browser) -> None:
        first = page.js("document.getElementById('after').src")
        page.js("document.querySelector('[data-view=depth]').click()")
        settle(page)
        assert page.js("document.querySelector('[data-view=depth]').ariaPressed") == "true"
        assert page.js("document.getElementById('after').src") != first
        move(page, "#overlay", False, "change")
        assert page.js("document.querySelector('[data-view=depth]').disabled")

    def test_before_is_shown_while_it_is_held(self, page: Browser) -> None:
        move(page, "#both", False, "change")
        seen = "[...document.querySelectorAll('figure')].map((figure) => figure.checkVisibility())"
        assert page.js(seen) == [False, True]
        page.js("document.getElementById('hold').focus()")
        page.press(" ", 32, True)
        assert page.js(seen) == [True, False]
        page.press(" ", 32, False)
        assert page.js(seen) == [False, True]
        page.js("document.getElementById('pictures').dispatchEvent(new PointerEvent('pointerdown', {bubbles: true}))")
        assert page.js(seen) == [True, False]
        page.js("dispatchEvent(new PointerEvent('pointerup'))")
        assert page.js(seen) == [False, True]

    def test_copying(self, page: Browser) -> None:
        page.js("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
        for form, start in (("python", "# The paste alone"), ("command", "segpaste augment scenes"), ("yaml", "#")):
            page.js(f"document.querySelector('[data-copy={form}]').click(); document.getElementById('copy').click()")
            page.until("document.getElementById('copy').textContent === 'Copied'")
            assert page.js("window.copied").startswith(start)
            assert page.js("window.copied") == text(page, "#text")

    def test_an_address_shows_the_same_again(self, page: Browser, address: str) -> None:
        move(page, f"{option('placement.layers')} input[type=range]", 3)
        page.js("document.getElementById('draw').click()")
        settle(page)
        shown, url = page.js("document.getElementById('after').src"), page.js("location.href")
        page.open("about:blank")
        page.open(url)
        page.until(READY)
        assert page.js("document.getElementById('after').src") == shown
        assert page.js(f'document.querySelector("{option("placement.layers")} input[type=range]").value') == "3"

    def test_options_are_found(self, page: Browser) -> None:
        move(page, "#search", "tau_stuff_px")
        shown = "[...document.querySelectorAll('.option')].filter((row) => row.checkVisibility()).map((row) => row.id)"
        assert page.js(shown) == ["option-panoptic-tau_stuff_px"]


class TestReach:
    def test_everything_has_a_name_and_can_be_reached_by_keys(self, page: Browser) -> None:
        page.js("document.querySelectorAll('details').forEach((group) => (group.open = true))")
        found = page.call("Accessibility.getFullAXTree")["nodes"]
        roles = {"button", "slider", "spinbutton", "switch", "checkbox", "combobox", "textbox", "searchbox"}
        inputs = [node for node in found if node["role"]["value"] in roles and not node["ignored"]]
        assert len(inputs) > 120
        assert [node for node in inputs if not node["name"].get("value", "").strip()] == []
        stops = page.js("[...document.querySelectorAll('button, input, select')].filter((e) => e.tabIndex < 0).length")
        assert stops == 0
        labels = page.js("[...document.querySelectorAll('img')].every((image) => image.alt.length > 5)")
        assert labels

    @pytest.mark.parametrize(("width", "height"), [(375, 700), (800, 600), (1920, 1080)])
    @pytest.mark.parametrize("is_dark", [False, True])
    def test_windows(self, page: Browser, width: int, height: int, is_dark: bool) -> None:
        page.resize(width, height)
        page.dark(is_dark)
        page.js("document.querySelectorAll('details').forEach((group) => (group.open = true))")
        assert page.js("document.scrollingElement.scrollWidth") == width
        beyond = page.js(
            "[...document.querySelectorAll('button, input, select, img, pre')].filter((e) => e.checkVisibility())"
            ".map((e) => [e.id, e.getBoundingClientRect()])"
            ".filter(([id, box]) => box.right > innerWidth + 1 || box.left < -1).map(([id]) => id)"
        )
        assert beyond == []
        assert page.js("document.getElementById('after').getBoundingClientRect().width") > min(150, width / 3)
        light = page.js("getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)[0] > 128")
        assert light is not is_dark


def test_a_named_browser_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "SEGPASTE_CHROMIUM", "/nowhere/chromium")
    assert find_browser() is None
