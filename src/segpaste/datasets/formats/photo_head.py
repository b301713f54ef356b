"""Head of a photo's file: size, color mode and EXIF orientation, read without its pixels.

A file that breaks off after its head looks whole here. `segpaste.datasets.formats.photo` reads pixels.
"""

from __future__ import annotations

import stat
import warnings
from pathlib import Path
from typing import NamedTuple

from PIL import ExifTags, Image, UnidentifiedImageError

from segpaste.datasets.formats.records import DatasetError
from segpaste.types.sampling import Size

EIGHT_BIT_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
"""Color modes of photos that are read, in Pillow's names."""

TOO_WIDE = "expected an image of 8 bits per channel, got 16; convert it to 8"
_TRANSPOSED = 5


class PhotoHead(NamedTuple):
    """Facts in the head of a photo's file.

    Attributes:
        size: (H, W) as stored; of a TIFF as its orientation shows it, for Pillow reads it so.
        orientation: EXIF orientation, 1 to 8; 1 is upright, and that of every TIFF.
        mode: color mode, in Pillow's names.
        is_wide: it has several channels of 16 bits, of which Pillow keeps the upper 8.
    """

    size: Size
    orientation: int
    mode: str
    is_wide: bool = False

    @property
    def upright_size(self) -> Size:
        """(H, W) as the EXIF orientation shows the photo."""
        return self.size[::-1] if self.orientation >= _TRANSPOSED else self.size

    @property
    def is_eight_bit(self) -> bool:
        """Tell whether readers take the photo."""
        return self.mode in EIGHT_BIT_MODES and not self.is_wide

    def is_rotated_for(self, size: Size | None, *, drawn_upright: bool = False) -> bool | None:
        """Return whether the EXIF orientation is followed for annotations of (H, W), as `read_pixels` does.

        Args:
            size: of the annotations; None where they follow the photo as it is shown.
            drawn_upright: they follow it, too, unless only the stored size is theirs.

        Returns:
            None where the photo has neither size.
        """
        if size is None or (drawn_upright and size == self.upright_size):
            return self.orientation > 1
        if size == self.size:
            return False
        return True if size == self.upright_size else None


def read_head(path: Path) -> PhotoHead:
    """Read the head of an image file.

    Raises:
        DatasetError: the file is missing, or is no image that Pillow reads.
    """
    expect_file(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's, of photos of many pixels and of odd metadata
            with Image.open(path) as photo:
                orientation = _metadata(path, photo).get(ExifTags.Base.Orientation, 1)
                is_known = isinstance(orientation, int) and 1 <= orientation <= 8
                is_known &= photo.format != "TIFF"  # Pillow has rotated its size already, and rotates its pixels
                return PhotoHead(photo.size[::-1], orientation if is_known else 1, photo.mode, has_wide_channels(photo))
    except FileNotFoundError:
        raise DatasetError(f"{path}: expected an image, found no such file; check the folder and the name") from None
    except UnidentifiedImageError:
        raise DatasetError(f"{path}: {unreadable(path)}") from None
    except Exception as error:  # what Pillow raises for a broken file depends on the format
        raise DatasetError(f"{path}: expected an image, could not read it ({error}); replace the file") from error


def expect_file(path: Path) -> None:
    """Raise `DatasetError` if a path is there and no regular file: opening a pipe would wait for its writer."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # what is missing, or no path, is told when it is opened
        return
    if not stat.S_ISREG(mode):
        found = "folder" if stat.S_ISDIR(mode) else "pipe or a device"
        raise DatasetError(f"{path}: expected an image, got a {found}; replace it")


def has_wide_channels(photo: Image.Image) -> bool:
    """Tell whether an opened, undecoded picture has several channels of 16 bits, of which Pillow keeps the upper 8."""
    return len(photo.getbands()) > 1 and any(";16" in str(tile[3]) for tile in getattr(photo, "tile", ()))


def unreadable(path: Path) -> str:
    """Say what is expected where Pillow recognises no image."""
    if path.suffix.lower() in (".tif", ".tiff"):
        return (
            "expected an image, got a file that is none, or a TIFF of channels or bits that Pillow does not "
            "read; save three channels of 8 bits"
        )
    return "expected an image, got a file that is none; replace it"


def _metadata(path: Path, photo: Image.Image) -> Image.Exif:
    """Return the EXIF entries; those of a PNG without decoding it, unless they come after its pixels."""
    if photo.format == "PNG" and "exif" not in photo.info and not _ends_with_exif(path):
        return Image.Image.getexif(photo)
    return photo.getexif()


def _ends_with_exif(path: Path) -> bool:
    """Return whether a PNG has EXIF entries after its pixels; see https://www.w3.org/TR/png-3/#5Chunk-layout."""
    has_pixels = False
    with path.open("rb") as file:
        file.seek(8)
        while len(start := file.read(8)) == 8:
            has_pixels |= start[4:] == b"IDAT"
            if has_pixels and start[4:] == b"eXIf":
                return True
            file.seek(int.from_bytes(start[:4]) + 4, 1)
    return False


def check_head(path: Path, size: Size | None = None) -> PhotoHead:
    """Read the head of a photo and check that readers take it.

    Args:
        path: of the file.
        size: (H, W) of its annotations; None where they follow the photo.

    Raises:
        DatasetError: the file is missing or no image, has more than 8 bits per channel, or is of another size.
    """
    head = read_head(path)
    expect_readable(path, head, size)
    return head


def expect_readable(path: Path, head: PhotoHead, size: Size | None) -> None:
    """Raise `DatasetError` if readers refuse a photo for its head; the arguments are those of `check_head`."""
    if head.is_wide:
        raise DatasetError(f"{path}: {TOO_WIDE}")
    if not head.is_eight_bit:
        raise DatasetError(f"{path}: expected an image of 8 bits per channel, got mode {head.mode}; convert it")
    if size is not None and head.is_rotated_for(size) is None:
        raise DatasetError(
            f"{path}: expected {size[1]} x {size[0]} pixels as in the annotation file, got {head.size[1]} x "
            f"{head.size[0]}; use the photos that the annotations were made on"
        )
