#!/usr/bin/env python3
"""Draw the rooms of the package and the arrows between them for CONTRIBUTING, from the import statements alone.

    python scripts/draw_house.py           # docs/images/house.svg
    python scripts/draw_house.py --check   # exit code 1 if that file is not what the imports say

A room stands above all rooms that it imports. An arrow that follows from others is left out, and so are the command
line, which imports every room, and what every room may import. The same imports give the same bytes.
"""

from __future__ import annotations

import argparse
import ast
import sys
import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise, permutations
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from test_import_arrows import FOR_EVERYBODY, PACKAGE, ROOMS, imported_names, room_of  # noqa: E402

PICTURE = ROOT / "docs" / "images" / "house.svg"
ABOVE = "cli"
"""The room that imports every other; it is a bar on top, without arrows."""

WIDTH, HEIGHT, LANE = 236, 84, 22
"""Pixels of a box, and the width that an arrow takes where it passes a layer."""
COLUMN_GAP, ROW_GAP, MARGIN, BAR = 16, 46, 20, 44
TEXT_LINES, TEXT_CHARS = 3, 34

STYLE = """
text { font-family: system-ui, sans-serif; font-size: 11px; fill: #55606f }
.name { font-size: 14px; font-weight: 600; fill: #1c2430 }
.count { text-anchor: end }
.paper { fill: #ffffff }
.box { fill: #f3f5f8; stroke: #8a94a3 }
.arrow { fill: none; stroke: #3b6ea8; stroke-width: 1.4; marker-end: url(#head) }
.one { stroke-dasharray: 5 4 }
.head { fill: #3b6ea8 }
@media (prefers-color-scheme: dark) {
  text { fill: #a9b4c2 }
  .name { fill: #e8ecf1 }
  .paper { fill: #15191f }
  .box { fill: #222933; stroke: #66717f }
  .arrow { stroke: #7fb0e8 }
  .head { fill: #7fb0e8 }
}
""".strip()

Lane = tuple[str, str, int]
"""Where the arrow between two rooms passes a layer."""
Node = str | Lane
Layers = list[list[Node]]


class House(NamedTuple):
    """Data that the drawing shows.

    Attributes:
        texts: the first line of each room's docstring.
        sizes: number of modules of each room.
        arrows: how many modules make each arrow, by (room, imported room).
    """

    texts: dict[str, str]
    sizes: dict[str, int]
    arrows: dict[tuple[str, str], int]


def read_house(package: Path) -> House:
    """Read the rooms of a package and the arrows between them; private modules are no rooms."""
    texts, sizes, importers = {}, {}, {}
    for room in sorted(ROOMS):
        file = package / f"{room}.py"
        head = file if file.exists() else package / room / "__init__.py"
        if not head.exists():
            continue
        docstring = ast.get_docstring(ast.parse(head.read_text(encoding="utf-8"))) or ""
        texts[room] = docstring.partition("\n")[0]
        modules = [file] if head == file else sorted((package / room).rglob("*.py"))
        sizes[room] = len(modules)
        for module in modules:
            for _, name in imported_names(module, package):
                target = room_of(name)
                if target in ROOMS - {room, ABOVE} - FOR_EVERYBODY:
                    importers.setdefault((room, str(target)), set()).add(module)
    return House(texts, sizes, {arrow: len(found) for arrow, found in sorted(importers.items())})


def without_detours(arrows: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], int]:
    """Leave out arrows whose end can be reached through other rooms."""
    below: dict[str, set[str]] = {}
    for room, target in arrows:
        below.setdefault(room, set()).add(target)

    def reached(room: str) -> set[str]:
        return {t for target in below.get(room, ()) for t in {target} | reached(target)}

    return {
        (room, target): number
        for (room, target), number in arrows.items()
        if not any(target in reached(other) for other in below[room] - {target})
    }


def layered(rooms: Sequence[str], arrows: Mapping[tuple[str, str], int]) -> Layers:
    """Put each room above all that it imports, with lanes for arrows that pass a layer; the top layer is first."""

    def height(room: str) -> int:
        return max((height(target) + 1 for start, target in arrows if start == room), default=0)

    heights = {room: height(room) for room in rooms}
    layers: Layers = [[room for room in rooms if heights[room] == h] for h in range(max(heights.values()) + 1)]
    for start, target in arrows:
        for h in range(heights[target] + 1, heights[start]):
            layers[h].append((start, target, h))
    return untangled(layers[::-1], links_of(arrows, heights))


def links_of(arrows: Mapping[tuple[str, str], int], heights: Mapping[str, int]) -> list[tuple[Node, Node]]:
    """Return the pieces of all arrows, each from one layer to the next."""
    found: list[tuple[Node, Node]] = []
    for start, target in arrows:
        lanes: list[Node] = [(start, target, h) for h in range(heights[start] - 1, heights[target], -1)]
        found += pairwise([start, *lanes, target])
    return found


def untangled(layers: Layers, links: Sequence[tuple[Node, Node]]) -> Layers:
    """Order each layer so that few arrows cross: four times through the layers, each time the best order of one."""
    for _ in range(4):
        for i, layer in enumerate(layers):

            def cost(order: Sequence[Node], i: int = i) -> tuple[int, float]:
                return tangle([*layers[:i], list(order), *layers[i + 1 :]], links)

            layers[i] = list(min(permutations(layer), key=cost))
    return layers


def tangle(layers: Layers, links: Sequence[tuple[Node, Node]]) -> tuple[int, float]:
    """Return the number of crossings, and how far all arrows go sideways."""
    place = centres(layers)
    layer_of = {node: i for i, layer in enumerate(layers) for node in layer}
    crossings = 0
    for n, (a, b) in enumerate(links):
        for c, d in links[:n]:
            if layer_of[a] == layer_of[c]:
                crossings += (place[a] - place[c]) * (place[b] - place[d]) < 0
    return crossings, sum(abs(place[a] - place[b]) for a, b in links)


def width_of(node: Node) -> int:
    """Return the pixels that a room or a lane is wide."""
    return WIDTH if isinstance(node, str) else LANE


def centres(layers: Layers) -> dict[Node, float]:
    """Return the x of the middle of all nodes; layers are centred about 0."""
    found: dict[Node, float] = {}
    for layer in layers:
        x = -(sum(map(width_of, layer)) + COLUMN_GAP * (len(layer) - 1)) / 2
        for node in layer:
            found[node] = x + width_of(node) / 2
            x += width_of(node) + COLUMN_GAP
    return found


def shortened(text: str) -> list[str]:
    """Break a docstring's first line into lines of a box, and cut it at a comma or colon where it is too long."""
    plain = text.replace("`", "").removesuffix(".")
    lines = textwrap.wrap(plain, TEXT_CHARS)
    while len(lines) > TEXT_LINES or plain.count("(") > plain.count(")"):
        cut = max(plain.rfind(mark) for mark in ",:;")
        plain = plain[:cut] if cut > 0 else plain.rpartition(" ")[0]
        lines = textwrap.wrap(plain, TEXT_CHARS)
    return lines


def drawing(house: House) -> str:
    """Return the SVG of a house."""
    arrows = without_detours({pair: n for pair, n in house.arrows.items() if pair[0] != ABOVE})
    rooms = [room for room in house.texts if room != ABOVE and room not in FOR_EVERYBODY]
    layers = layered(rooms, arrows)
    at = centres(layers)
    left = min(at[n] - width_of(n) / 2 for layer in layers for n in layer) - MARGIN
    x = {node: centre - left for node, centre in at.items()}
    top = MARGIN + BAR + ROW_GAP // 2
    y = {node: top + i * (HEIGHT + ROW_GAP) for i, layer in enumerate(layers) for node in layer}
    width, height = -2 * left, top + len(layers) * (HEIGHT + ROW_GAP) - ROW_GAP // 2 + BAR + MARGIN
    end = height - MARGIN - BAR
    size = f"{width:.0f} {height:.0f}"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" role="img">',
            "<title>The rooms of segpaste, each above the rooms that it imports</title>",
            f"<style>\n{STYLE}\n</style>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker></defs>',
            f'<rect class="paper" width="{width:.0f}" height="{height:.0f}" rx="8"/>',
            *bar(ABOVE, "imports every room below", house, MARGIN, width),
            *(line for arrow, number in arrows.items() for line in arrow_lines(arrow, number, arrows, x, y)),
            *(line for room in rooms for line in box(room, house, x[room] - WIDTH / 2, y[room])),
            *(
                line
                for room in sorted(FOR_EVERYBODY)
                for line in bar(room, "every room may import it", house, end, width)
            ),
            "</svg>",
            "",
        ]
    )


def box(room: str, house: House, x: float, y: float) -> list[str]:
    """Return the lines of a room's box."""
    number = house.sizes[room]
    texts = [
        f'<text x="{x + 12:.0f}" y="{y + 40 + 15 * i:.0f}">{escape(line)}</text>'
        for i, line in enumerate(shortened(house.texts[room]))
    ]
    return [
        f'<rect class="box" x="{x:.0f}" y="{y:.0f}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>',
        f'<text class="name" x="{x + 12:.0f}" y="{y + 21:.0f}">{room}</text>',
        f'<text class="count" x="{x + WIDTH - 12:.0f}" y="{y + 21:.0f}">{modules(number)}</text>',
        *texts,
    ]


def bar(room: str, text: str, house: House, y: float, width: float) -> list[str]:
    """Return the lines of a box of the whole width, without arrows."""
    end, middle = width - MARGIN, y + BAR / 2 + 4
    subject = house.texts[room].partition(":")[0]
    return [
        f'<rect class="box" x="{MARGIN}" y="{y:.0f}" width="{end - MARGIN:.0f}" height="{BAR}" rx="6"/>',
        f'<text class="name" x="{MARGIN + 12}" y="{middle:.0f}">{room}</text>',
        f'<text x="{MARGIN + 90}" y="{middle:.0f}">{text} · {escape(subject)}</text>',
        f'<text class="count" x="{end - 12:.0f}" y="{middle:.0f}">{modules(house.sizes[room])}</text>',
    ]


def modules(number: int) -> str:
    """Return the number of modules in words."""
    return f"{number} module{'s' if number > 1 else ''}"


def arrow_lines(
    arrow: tuple[str, str],
    number: int,
    arrows: Mapping[tuple[str, str], int],
    x: Mapping[Node, float],
    y: Mapping[Node, int],
) -> list[str]:
    """Return the path of an arrow: down through its lanes, dashed if one module alone makes it."""
    start, target = arrow
    lanes = sorted((n for n in x if isinstance(n, tuple) and n[:2] == arrow), key=lambda n: y[n])
    first, last = lanes[0] if lanes else target, lanes[-1] if lanes else start
    leaving = sorted(x[next_of(other, x, y)] for other in arrows if other[0] == start)
    coming = sorted(x[before(other, x, y)] for other in arrows if other[1] == target)
    here, there = y[start] + HEIGHT, x[start] + port(leaving, x[first])
    path = f"M{there:.0f} {here}"
    for lane in lanes:
        path += bend(there, here, x[lane], y[lane]) + f"V{y[lane] + HEIGHT}"
        there, here = x[lane], y[lane] + HEIGHT
    path += bend(there, here, x[target] + port(coming, x[last]), y[target] - 2)
    return [f'<path class="arrow{" one" if number == 1 else ""}" d="{path}"/>']


def next_of(arrow: tuple[str, str], x: Mapping[Node, float], y: Mapping[Node, int]) -> Node:
    """Return the first lane of an arrow, or its end."""
    lanes = [n for n in x if isinstance(n, tuple) and n[:2] == arrow]
    return min(lanes, key=lambda n: y[n]) if lanes else arrow[1]


def before(arrow: tuple[str, str], x: Mapping[Node, float], y: Mapping[Node, int]) -> Node:
    """Return the last lane of an arrow, or its start."""
    lanes = [n for n in x if isinstance(n, tuple) and n[:2] == arrow]
    return max(lanes, key=lambda n: y[n]) if lanes else arrow[0]


def port(others: Sequence[float], own: float) -> float:
    """Return how far from the middle of a box an arrow starts or ends, so that arrows do not cross at the box."""
    return (others.index(own) - (len(others) - 1) / 2) * min(36, (WIDTH - 24) / max(len(others), 1))


def bend(x1: float, y1: float, x2: float, y2: float) -> str:
    """Return a curve that leaves and arrives vertically."""
    middle = (y1 + y2) / 2
    return f"C{x1:.0f} {middle:.0f} {x2:.0f} {middle:.0f} {x2:.0f} {y2:.0f}"


def main(argv: Sequence[str] | None = None) -> int:
    """Write the drawing, or compare it; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if the drawing is out of date")
    args = parser.parse_args(argv)
    svg = drawing(read_house(PACKAGE)).encode()
    if not args.check:
        PICTURE.write_bytes(svg)
    elif not PICTURE.exists() or PICTURE.read_bytes() != svg:
        print(f"{PICTURE.name} does not show the imports: run python scripts/draw_house.py")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
