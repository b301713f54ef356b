"""`segpaste preview`: a web page on this machine, to try the options of a paste on a dataset."""

from __future__ import annotations

import argparse
import errno
import sys
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from segpaste._printable import printable
from segpaste._reprs import counted
from segpaste.augmenting.options import SIDES_PX, PasteOptions
from segpaste.cli._arguments import (
    add_backgrounds,
    add_balance,
    add_depth_fill,
    add_photos,
    integer,
    options_of,
    sides,
)
from segpaste.cli._errors import CommandError
from segpaste.cli._names import preset_and_key_lines
from segpaste.cli._process import importing

if TYPE_CHECKING:
    from segpaste.augmenting.preview import DatasetStudio

_EXAMPLE = f"""\
The page shows one image before and after the paste, and redraws it when an option changes. A report says what was
pasted, what was not, and why. The options can be copied as YAML for --config, as Python, and as a segpaste augment
command. Without DATASET the page shows synthetic scenes. KEY=VALUE, --config and --preset set the initial options.

{preset_and_key_lines()}

Other machines cannot reach the page, and it loads nothing from other servers. To use it on a remote machine, connect
with ssh -L 8765:127.0.0.1:8765 HOST, run segpaste preview --no-open there, and open the printed address here.

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


def add_to(commands: Any, summary: str) -> None:
    """Add the command to the parser, with a summary of a few words."""
    text = "Serve a web page to this machine, to try the options of a paste on a dataset."
    parser = commands.add_parser("preview", help=summary, description=text, example=_EXAMPLE)
    parser.usage = "segpaste preview [ANNOTATIONS.json|FOLDER|DATA.yaml|scenes] [options] [KEY=VALUE ...]"
    add = parser.add_argument
    add("dataset", metavar="DATASET", nargs="?", help="any dataset that segpaste augment reads, default: scenes")
    add_photos(parser)
    add_backgrounds(parser)
    add_depth_fill(parser)
    add("--seed", metavar="S", type=integer(0, _LARGEST_SEED), default=0, help="seed of the first draw, default: 0")
    text = "jitter images to this size, or own: keep their size; default: that of the preset, else own. Side of scenes"
    add("--size", metavar="WxH|PX|own", type=sides(*SIDES_PX), help=f"{text}, default: {_DEFAULT_SIZE_PX}")
    add("--preset", metavar="NAME|FILE", help="preset to start with")
    add("--config", metavar="FILE", help="paste configuration in YAML or JSON to start with")
    add("--bank", metavar="BANK", help="paste objects of this instance bank, instead of the dataset's own")
    add_balance(parser, "how the classes of single objects are drawn", pastes=True)
    text = f"port of the page, 0: any free one; default: {_DEFAULT_PORT}, or a free one if that is taken"
    add("--port", metavar="P", type=integer(0, 65535), help=text)
    add("--open", action=argparse.BooleanOptionalAction, default=True, help="open the page in a browser, default: yes")
    parser.set_defaults(run=run, takes_overrides=True)


def run(args: argparse.Namespace) -> None:
    """Open the dataset and serve the page until an interrupt."""
    studio = open_studio(args)
    server = _bound(args.port, studio)
    address = f"http://127.0.0.1:{server.server_port}/"
    page = f"{printable(studio.name)}: {counted(studio.num_images, 'image')} at {address} (Ctrl-C stops it)"
    print(*studio.resolved, page, sep="\n", flush=True)
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
        ValueError: the dataset, an option or the configuration is invalid.
    """
    with importing():
        from segpaste.augmenting.inputs import open_dataset
        from segpaste.augmenting.preview import DatasetStudio

    if args.dataset is None and args.backgrounds is None:
        args.dataset = "scenes"
    options = options_of(PasteOptions, args)
    side = options.size[0] if isinstance(options.size, tuple) else _DEFAULT_SIZE_PX
    return DatasetStudio(options, open_dataset(options, options.seed, side, _NUM_SCENES))


def _bound(port: int | None, studio: DatasetStudio) -> ThreadingHTTPServer:
    """Return the server at a port; if none is given, at the default port or a free one.

    Raises:
        CommandError: the given port is taken.
    """
    from segpaste.viz.preview.serving import make_server

    try:
        return make_server(studio, _DEFAULT_PORT if port is None else port)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        if port is None:
            return make_server(studio, 0)
        raise CommandError(f"--port: expected a free port, got {port}; give another one, or 0 for any") from error


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
