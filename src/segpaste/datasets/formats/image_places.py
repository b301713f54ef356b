"""Image of an entry that names its file, or only its address on the web, in a folder of images."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from segpaste.datasets.errors import DatasetError

_ADDRESS = re.compile(r"(https?|ftp|gs|s3|blob):", re.IGNORECASE)


def is_address(name: str) -> bool:
    """Return whether a name is an address on the web."""
    return _ADDRESS.match(name) is not None


def places_of(name: str, folder: str = "") -> list[str]:
    """Return where a file may be in a folder of images: by its name, in ``images``, in another folder, by its end.

    Args:
        name: its name or address.
        folder: the folder that the file of annotations names; may be empty. On another machine, its end may be there.
    """
    if is_address(name):
        name = unquote(PurePosixPath(urlsplit(name).path).name) or name
    name, folder = name.replace("\\", "/"), folder.replace("\\", "/")
    end = PurePosixPath(name).name
    steps = PurePosixPath(folder).parts
    inside = [name, f"images/{name}", *(str(PurePosixPath(*steps[start:], name)) for start in range(len(steps)))]
    ends = [end, f"images/{end}"]
    return [*ends, *inside] if ".." in PurePosixPath(name).parts else [*inside, *ends]


def stored_image(where: str, name: str, path: Path) -> Path:
    """Return the path of an image.

    Args:
        where: text at the start of errors.
        name: its name or address.
        path: the path.

    Raises:
        DatasetError: there is no such file, and only its address is known.
    """
    if is_address(name) and not path.is_file():
        raise DatasetError(
            f"{where}: expected the file of the image, got only its address {name!r:.80}; download the images into one "
            "folder, under the names at the end of their addresses, and give the folder (images_dir=, --images)"
        )
    return path
