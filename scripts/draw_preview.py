#!/usr/bin/env python3
"""Draw the picture of the preview page for the documentation: synthetic scenes in a headless Chromium.

python scripts/draw_preview.py [--out FILE] [--width PX] [--height PX]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
from pathlib import Path
from urllib.parse import quote

from PIL import Image

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from headless_browser import Browser, find_browser  # noqa: E402
from segpaste.cli import parse, preview  # noqa: E402
from segpaste.viz.preview.rendering import render  # noqa: E402
from segpaste.viz.preview.serving import make_server  # noqa: E402

SHOWN = {
    "image": 3,
    "seed": 4,
    "values": {"placement.grouping": "instance", "placement.layers": 6, "placement.scale_range": [0.4, 0.9]},
}
READY = "document.getElementById('after')?.src && !document.body.hasAttribute('aria-busy')"


def main() -> int:
    """Draw it; 2 where there is no browser."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images" / "preview.jpg")
    parser.add_argument("--width", type=int, default=1440)
    parser.add_argument("--height", type=int, default=860)
    args = parser.parse_args()
    if (browser := find_browser()) is None:
        print("expected a Chromium, found none: apt-get install chromium-headless-shell", file=sys.stderr)
        return 2
    studio = preview.open_studio(parse(["preview", "--size", "384"]))
    for _ in range(2):  # the page shows the time, which is longer the first time
        render(studio, SHOWN)
    server = make_server(studio, 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with Browser(browser, args.width, args.height) as page, tempfile.TemporaryDirectory() as folder:
        page.dark(False)
        page.open(f"http://127.0.0.1:{server.server_port}/#{quote(json.dumps(SHOWN))}")
        page.until(READY)
        picture = Path(folder) / "page.png"
        page.screenshot(picture)
        Image.open(picture).convert("RGB").save(args.out, quality=82, optimize=True)
    server.shutdown()
    print(f"{args.out}: {args.out.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
