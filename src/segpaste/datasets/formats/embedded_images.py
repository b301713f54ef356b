"""Images inside annotation files, as base64: copies in the cache folder, from which samples are read.

A copy is in a folder of its own, named by the digest of its content. It is compared with the content whenever the
annotations are read, so a damaged one is replaced. Workers and later runs read the same copy.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from pathlib import Path, PurePosixPath

from PIL import UnidentifiedImageError

from segpaste._caches import cache_folder
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.image_files import open_image
from segpaste.workspace import write_whole

_SUFFIXES = {"PNG": (".png",), "JPEG": (".jpg", ".jpeg"), "BMP": (".bmp",), "TIFF": (".tif", ".tiff")}


def decoded(where: str, text: object, key: str) -> bytes:
    """Return the content of an image in base64.

    Args:
        where: text at the start of errors.
        text: the image; may be a data URL.
        key: the key of the image, for errors.

    Raises:
        DatasetError: it is no base64.
    """
    try:
        if not isinstance(text, str):
            raise ValueError(f"of type {type(text).__name__}")
        return base64.b64decode(text.rpartition(",")[2] if text.startswith("data:") else text, validate=True)
    except (binascii.Error, ValueError) as error:
        message = f"{where}: expected '{key}', an image in base64, got something else ({error}); save it again"
        raise DatasetError(message) from error


def kept_image(where: str, name: str, content: bytes) -> tuple[str, Path]:
    """Keep an image in the cache folder.

    Args:
        where: text at the start of errors.
        name: its name in the annotations.
        content: content of an image file.

    Returns:
        its name, with the suffix of its format, and the path of its copy.

    Raises:
        DatasetError: it is not an image, or the cache folder cannot be written.
    """
    try:
        with open_image(content) as image:
            suffixes = _SUFFIXES.get(str(image.format), (f".{image.format}".lower(),))
    except UnidentifiedImageError:
        raise DatasetError(f"{where}: expected an image file in base64, got other content; save it again") from None
    own = PurePosixPath(name)
    name = name if own.suffix.lower() in suffixes else own.with_suffix(suffixes[0]).as_posix()
    path = cache_folder("images") / hashlib.sha256(content).hexdigest() / f"image{suffixes[0]}"
    if not path.is_file() or path.read_bytes() != content:
        try:
            write_whole(path, content)
        except OSError as error:
            raise DatasetError(
                f"{where}: expected a folder to copy its image to, could not write {path} ({error.strerror}); set "
                "SEGPASTE_CACHE to another folder, or save the images beside the file"
            ) from error
    return name, path
