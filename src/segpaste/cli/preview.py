"""`segpaste preview`: a page on this machine to try the options of a paste on a dataset."""

from __future__ import annotations

import argparse
import errno
import sys
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from segpaste._printable import printable
from segpaste.cli._arguments import add_backgrounds, add_balance, add_photos, integer, sides
from segpaste.cli._errors import CommandError

if TYPE_CHECKING:
    from segpaste.cli._studio import DatasetStudio

_EXAMPLE = """\
The page shows one image before and after the paste, redrawn as the options move, with what was pasted and what was not,
and why. It has the options as YAML for --config, as Python, and as the segpaste augment that does the same. Without
DATASET it shows synthetic scenes. KEY=VALUE words, --config and --preset say what it starts with.

Only this machine sees the page, and it loads nothing from elsewhere. From a machine that you are logged in to by ssh:
ssh -L 8765:127.0.0.1:8765 HOST, there segpaste preview --no-open, and the address it prints in the browser here.

examples:
  segpaste preview
  segpaste preview instances.json --images photos
  segpaste preview data.yaml --split val --preset simple_copy_paste
  segpaste preview roboflow_export --port 0 --no-open placement.layers=3
  segpaste preview instances.json --images photos --bank objects --balance class_uniform
"""
_DEFAULT_PORT = 8765
_DEFAULT_SIZE_PX = 256
_LARGEST_SEED = (1 << 53) - 1
_NUM_SCENES = 200


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    text = "Serve a page to this machine, on which the options of a paste are tried on a dataset."
    parser = commands.add_parser("preview", help="a page to try the options on", description=text, example=_EXAMPLE)
    parser.usage = "segpaste preview [ANNOTATIONS.json|FOLDER|DATA.yaml|scenes] [options] [KEY=VALUE ...]"
    add = parser.add_argument
    add("dataset", metavar="DATASET", nargs="?", help="any dataset that segpaste augment reads, default: scenes")
    add_photos(parser)
    add_backgrounds(parser)
    add("--seed", metavar="S", type=integer(0, _LARGEST_SEED), default=0, help="of the first draw, default: 0")
    text = "jitter photos to this size, or own: their own; default: as the preset says, else own. Side of scenes"
    add("--size", metavar="WxH|PX|own", type=sides(32, 4096), help=f"{text}, default: {_DEFAULT_SIZE_PX}")
    add("--preset", metavar="NAME|FILE", help="a recipe of pasting to start with")
    add("--config", metavar="FILE", help="paste configuration in YAML or JSON to start with")
    add("--bank", metavar="BANK", help="paste objects of this instance bank, instead of the dataset's own")
    add_balance(parser, "how the classes of single objects are drawn")
    text = f"of the page, 0 for any that is free, default: {_DEFAULT_PORT}, or any where that is taken"
    add("--port", metavar="P", type=integer(0, 65535), help=text)
    add("--open", action=argparse.BooleanOptionalAction, default=True, help="open the page in a browser, default: yes")
    parser.set_defaults(run=run, takes_overrides=True)


def run(args: argparse.Namespace) -> None:
    """Open the dataset and serve the page until an interrupt."""
    studio = open_studio(args)
    server = _bound(args.port, studio)
    address = f"http://127.0.0.1:{server.server_port}/"
    print(f"{printable(studio.name)}: {studio.num_images:,} images at {address} (Ctrl-C ends it)", flush=True)
    if args.open:
        _open_browser(address)
    try:
        server.serve_forever(poll_interval=0.1)
    except KeyboardInterrupt:
        print("stopped")
    finally:
        server.server_close()


def open_studio(args: argparse.Namespace) -> DatasetStudio:
    """Open the dataset of the page.

    Raises:
        CommandError, DatasetError: it, an option or the configuration is refused.
    """
    from segpaste.cli import _inputs, _studio

    if args.dataset is None and args.backgrounds is None:
        args.dataset = "scenes"
    if args.dataset == "scenes" and isinstance(args.size, tuple) and args.size[0] != args.size[1]:
        raise CommandError("--size: expected one side, because scenes are square, got two; write --size PX")
    side = args.size[0] if isinstance(args.size, tuple) else _DEFAULT_SIZE_PX
    return _studio.DatasetStudio(args, _inputs.open_dataset(args, args.seed, side, _NUM_SCENES))


def _bound(port: int | None, studio: DatasetStudio) -> ThreadingHTTPServer:
    """Return the server at a port; where none is given, at the default one or any other.

    Raises:
        CommandError: the port that is given is taken.
    """
    from segpaste.viz.preview.serving import make_server

    try:
        return make_server(studio, _DEFAULT_PORT if port is None else port)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        if port is None:
            return make_server(studio, 0)
        raise CommandError(
            f"--port: expected a port that is free, got {port}; give another one, or 0 for any"
        ) from error


def _open_browser(address: str) -> None:
    """Open a page in a browser with windows; a browser in the terminal would hide what the command prints."""
    import webbrowser

    if not sys.stdout.isatty():
        return
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return
    if type(browser) is not webbrowser.GenericBrowser:
        browser.open(address)
