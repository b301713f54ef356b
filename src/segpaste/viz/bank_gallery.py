"""Pictures of a bank: some crops of every class on one page."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from segpaste._printable import in_html
from segpaste._reprs import counted
from segpaste.bank.format.stored import StoredBank
from segpaste.bank.schema.record import BankError
from segpaste.viz.gallery import Tile, gallery_png, grid, png_bytes
from segpaste.workspace import naming, write_whole

_TILE_PX, _PER_ROW, _SQUARE_PX = 160, 8, 8
_LIGHT, _DARK = 250, 215
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:90rem;padding:0 1rem;background:#f7f7f5;"
    "color:#222}h1{font-size:1.3rem}h2{font-size:1rem;margin:1.4rem 0 .3rem}p,h2 span{color:#666;font-weight:400}"
    "img{max-width:100%}"
)


def write_bank_gallery(bank: StoredBank, out: str | os.PathLike[str], per_class: int = 8) -> Path:
    """Draw evenly spread crops of every class, as an HTML page that loads no other file, or as a PNG.

    Args:
        bank: the bank.
        out: a name that ends in ``.html`` or ``.png``, or a folder for ``gallery.html``.
        per_class: largest number of crops of a class.

    Returns:
        The written file.

    Raises:
        BankError: ``out`` is a file with another ending.
        OSError: the file cannot be written.
    """
    path = Path(out)
    is_page = path.suffix.lower() in (".html", ".png")
    if path.is_file() and not is_page:
        raise BankError(
            f"{path}: expected a folder, or a name that ends in .html or .png, got a file of another ending"
        )
    path = path if is_page else path / "gallery.html"
    with naming(path):
        if path.suffix.lower() == ".png":
            rows = (row for _, _, tiles in _classes(bank, per_class) for row in _wrapped(tiles))
            return gallery_png(path, rows, tile_px=_TILE_PX)
        return write_whole(path, (text.encode() for text in _page(bank, per_class)))


def _classes(bank: StoredBank, per_class: int) -> Iterator[tuple[str, int, list[Tile]]]:
    """Yield name, number of crops, and evenly spread sample crops of every class that has any."""
    of_crop = bank.crop_class_ids()
    order = np.argsort(of_crop, kind="stable")
    ends = np.cumsum(bank.class_frequencies)
    for name, num, end in zip(bank.class_names, bank.class_frequencies, ends.tolist(), strict=True):
        if num:
            own = order[end - num : end]
            chosen = own[np.linspace(0, num - 1, min(num, per_class)).round().astype(int)]
            yield name, num, [Tile(_picture(bank, index), f"{name} {index}") for index in chosen.tolist()]


def _picture(bank: StoredBank, index: int) -> NDArray[np.uint8]:
    """Return the object on a checkerboard [h, w, 3], cut to the content of its crop."""
    columns = bank.read([index], ["image", "alpha", "content_box"])
    image, alpha = columns["image"][0].transpose(1, 2, 0), columns["alpha"][0, 0]
    rows, cols = (np.arange(n) // _SQUARE_PX for n in alpha.shape)
    board = np.where((rows[:, None] + cols) % 2, _DARK, _LIGHT).astype(np.uint8)[..., None]
    left, top, right, bottom = columns["content_box"][0].tolist()
    picture: NDArray[np.uint8] = np.where(alpha[..., None], image, board)[top:bottom, left:right]
    return picture


def _wrapped(tiles: list[Tile]) -> Iterator[list[Tile]]:
    for start in range(0, len(tiles), _PER_ROW):
        yield tiles[start : start + _PER_ROW]


def _page(bank: StoredBank, per_class: int) -> Iterator[str]:
    """Yield the pieces of an HTML page with embedded pictures, which loads no other file."""
    title = f"{Path(bank.where).name}: {counted(len(bank), 'crop')}"
    yield (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">"
        f"<title>{in_html(title)}</title><style>{_STYLE}</style></head><body><h1>{in_html(title)}</h1>"
        f"<p>{bank.meta.format}, crops of {bank.crop_size[0]} x {bank.crop_size[1]}, {in_html(bank.version)}</p>"
    )
    for name, num, tiles in _classes(bank, per_class):
        captioned = [Tile(tile.picture, tile.caption.rpartition(" ")[2]) for tile in tiles]
        sheet = base64.b64encode(png_bytes(grid(_wrapped(captioned), tile_px=_TILE_PX))).decode()
        yield (
            f"<h2>{in_html(name)} <span>{num:,}</span></h2>"
            f'<img alt="{in_html(name)}" src="data:image/png;base64,{sheet}">'
        )
    yield "</body></html>\n"
