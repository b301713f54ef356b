"""Image files: header, size, EXIF orientation, and the image as RGB in the frame of its annotations.

A file that is truncated after its header is found only when it is decoded. Not for depth, label maps or anything with
more than 8 bits per channel, whose values the conversion to RGB changes; see `segpaste.datasets.formats.stored_pixels`.
"""

from __future__ import annotations

import contextlib
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from PIL import ExifTags, Image, ImageFile, ImageOps, UnidentifiedImageError

from segpaste._pixels import Size
from segpaste.datasets.errors import DatasetError

EIGHT_BIT_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
"""Supported color modes of images, in Pillow's names."""

TOO_WIDE = "expected an image of 8 bits per channel, got 16; convert it to 8"
_JPEG = b"\xff\xd8\xff"  # the first bytes of a JPEG
_TRANSPOSED = 5
_SUBFILE, _OLD_SUBFILE, _SAMPLES = 254, 255, 277
_OLD_REDUCED = 2
_TURNED_BACK = {
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}
"""What makes an upright TIFF the stored one, by its orientation."""


class ImageHead(NamedTuple):
    """Header of an image file.

    Attributes:
        size: (H, W) as stored.
        orientation: EXIF orientation, 1 to 8; 1 is upright.
        mode: color mode, in Pillow's names.
        is_wide: True if it has several channels of 16 bits, of which Pillow keeps the upper 8.
        is_tiff: True for a TIFF, whose orientation almost all readers apply.
    """

    size: Size
    orientation: int
    mode: str
    is_wide: bool = False
    is_tiff: bool = False

    @property
    def is_oriented(self) -> bool:
        """True if it has an EXIF orientation other than upright. Only some readers apply it."""
        return self.orientation > 1

    @property
    def upright_size(self) -> Size:
        """(H, W) of the image rotated by its EXIF orientation."""
        return self.size[::-1] if self.orientation >= _TRANSPOSED else self.size

    @property
    def is_eight_bit(self) -> bool:
        """True if readers accept the image."""
        return self.mode in EIGHT_BIT_MODES and not self.is_wide

    def is_rotated_for(self, size: Size | None, *, drawn_upright: bool = False) -> bool | None:
        """Return whether `read_image` follows the EXIF orientation for annotations of (H, W).

        Args:
            size: (H, W) of the annotations; None if they always follow the EXIF orientation.
            drawn_upright: True if they follow it unless only the stored size is theirs.

        Returns:
            None if the image has this size in neither orientation.
        """
        if size is None or ((drawn_upright or self.is_tiff) and size == self.upright_size):
            return self.orientation > 1
        if size == self.size:
            return False
        return True if size == self.upright_size else None


def read_head(path: Path) -> ImageHead:
    """Read the header of an image file.

    Raises:
        DatasetError: the file is missing, or is not an image that Pillow reads.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's warnings about many pixels and odd metadata
        with _opened(path, "read") as image:
            orientation = _metadata(path, image).get(ExifTags.Base.Orientation, 1)
            is_known = isinstance(orientation, int) and 1 <= orientation <= 8
            is_wide, is_tiff = has_wide_channels(image), image.format == "TIFF"
            return ImageHead(_stored_size(image), orientation if is_known else 1, image.mode, is_wide, is_tiff)


def is_jpeg(path: Path) -> bool:
    """Return whether a file is a JPEG, by its first bytes; False if it cannot be read."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        return file.read(3) == _JPEG
    return False


def header_size(content: bytes) -> Size | None:
    """Return the (H, W) in the header of a PNG or JPEG, None if it is neither; Pillow takes ten times longer."""
    if content[:8] == b"\x89PNG\r\n\x1a\n" and content[12:16] == b"IHDR" and len(content) >= 33:
        return int.from_bytes(content[20:24]), int.from_bytes(content[16:20])
    place = 2 if content[:3] == _JPEG else len(content)
    while place + 9 <= len(content) and content[place] == 0xFF:
        marker = content[place + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):  # a frame, and no table
            return int.from_bytes(content[place + 5 : place + 7]), int.from_bytes(content[place + 7 : place + 9])
        place += 2 + int.from_bytes(content[place + 2 : place + 4])
    return None


@contextmanager
def open_image(source: Path | bytes) -> Iterator[ImageFile.ImageFile]:
    """Open an image file, or its content, for a block.

    Pillow maps an uncompressed file that it opens by its name into memory, with the sides of the image after a TIFF's
    orientation, so that the rows of an image turned by 90 degrees are scrambled. It decodes a file that is open.
    """
    with source.open("rb") if isinstance(source, Path) else BytesIO(source) as file, Image.open(file) as image:
        yield image


def _stored_size(image: Image.Image) -> Size:
    """Return the (H, W) of an opened image as stored; recent releases of Pillow turn the size of a TIFF."""
    if image.format != "TIFF":
        return image.size[::-1]
    tags = image.tag_v2  # type: ignore[attr-defined]
    return tags[ExifTags.Base.ImageLength], tags[ExifTags.Base.ImageWidth]


@contextmanager
def _opened(path: Path, verb: str) -> Iterator[Image.Image]:
    """Open an image file for a block that reads or decodes it; errors of Pillow name the file.

    Raises:
        DatasetError: the file is missing, or is not an image that Pillow reads.
    """
    expect_file(path)
    try:
        with open_image(path) as image:
            expect_one_page(path, image)
            yield image
    except FileNotFoundError:
        raise DatasetError(f"{path}: expected an image, found no such file; check the folder and the name") from None
    except UnidentifiedImageError:
        raise DatasetError(f"{path}: {unreadable(path)}") from None
    except DatasetError:
        raise
    except Exception as error:  # Pillow's errors for broken files depend on the format
        raise DatasetError(f"{path}: expected an image, could not {verb} it ({error}); replace the file") from error


def num_frames(path: Path) -> int:
    """Return the number of frames of an image file, of which readers read the first."""
    with open_image(path) as image:
        return int(getattr(image, "n_frames", 1))


def expect_file(path: Path) -> None:
    """Raise `DatasetError` if a path is there and no regular file: opening a pipe would wait for its writer."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # what is missing, or no path, is told when it is opened
        return
    if not stat.S_ISREG(mode):
        found = "folder" if stat.S_ISDIR(mode) else "pipe or a device"
        raise DatasetError(f"{path}: expected an image, got a {found}; replace it")


def has_wide_channels(image: Image.Image) -> bool:
    """Return whether an opened, undecoded image has several 16-bit channels, of which Pillow keeps the upper 8 bits."""
    return len(image.getbands()) > 1 and any(";16" in str(tile[3]) for tile in getattr(image, "tile", ()))


def left_out_by_pillow(image: Image.Image) -> str:
    """Return in words what an opened TIFF has and Pillow leaves out: further pages or channels; empty if nothing.

    Smaller copies of the first page, as in pyramids, are no pages.
    """
    if image.format != "TIFF":
        return ""
    tags, pages = image.tag_v2, 1  # type: ignore[attr-defined]
    if (samples := tags.get(_SAMPLES, 1)) > len(image.getbands()):
        return f"a TIFF of {samples} channels, of which {len(image.getbands())} can be read"
    for page in range(1, getattr(image, "n_frames", 1)):
        image.seek(page)
        tags = image.tag_v2  # type: ignore[attr-defined]
        pages += not (tags.get(_SUBFILE, 0) & 1 or tags.get(_OLD_SUBFILE) == _OLD_REDUCED)
    image.seek(0)
    return f"a TIFF of {pages} pages" if pages > 1 else ""


def expect_one_page(path: Path, image: Image.Image) -> None:
    """Raise `DatasetError` if an opened TIFF has pages or channels that readers leave out."""
    if found := left_out_by_pillow(image):
        raise DatasetError(f"{path}: expected one image of at most 4 channels, got {found}; save each image as a file")


def unreadable(path: Path) -> str:
    """Return the message for a file in which Pillow recognises no image."""
    if path.suffix.lower() in (".tif", ".tiff"):
        return (
            "expected an image, got another file, or a TIFF of channels or bits that Pillow does not read; save "
            "three channels of 8 bits"
        )
    return "expected an image, got another file; replace it"


def _metadata(path: Path, image: Image.Image) -> Image.Exif:
    """Return the EXIF entries; a PNG is decoded for this only if they come after its pixels."""
    if image.format == "PNG" and "exif" not in image.info and not _ends_with_exif(path):
        return Image.Image.getexif(image)
    return image.getexif()


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


def check_head(path: Path, size: Size | None = None) -> ImageHead:
    """Read the header of an image and check that readers accept it.

    Args:
        path: path of the file.
        size: (H, W) of its annotations; None if they follow the image.

    Raises:
        DatasetError: the file is missing or not an image, has more than 8 bits per channel, or has another size.
    """
    head = read_head(path)
    expect_readable(path, head, size)
    return head


def expect_readable(path: Path, head: ImageHead, size: Size | None) -> None:
    """Raise `DatasetError` if readers reject an image by its header; arguments as for `check_head`."""
    if head.is_wide:
        raise DatasetError(f"{path}: {TOO_WIDE}")
    if not head.is_eight_bit:
        raise DatasetError(f"{path}: expected an image of 8 bits per channel, got mode {head.mode}; convert it")
    if size is not None and head.is_rotated_for(size) is None:
        raise DatasetError(
            f"{path}: expected {size[1]} x {size[0]} pixels as in the annotation file, got {head.size[1]} x "
            f"{head.size[0]}; use the images that the annotations were made on"
        )


def upright_size(path: Path) -> tuple[int, int]:
    """Return (H, W) of an image, rotated by its EXIF orientation, from the file header alone.

    Raises:
        DatasetError: the file is missing, or is not an image.
    """
    return read_head(path).upright_size


def read_image(
    path: Path, size: Size | None, at_least: Size | None = None, *, drawn_upright: bool = False
) -> Image.Image:
    """Decode an image as RGB; grey, palette and CMYK files are converted, transparency is dropped.

    Annotations are drawn either on the stored pixels or on the image rotated by its EXIF orientation, and only the
    size in the annotation file tells which. The image is rotated if only the rotated size is that of the annotations.
    If both sizes are, ``drawn_upright`` decides, but a TIFF is always rotated, since almost all readers do it.

    Args:
        path: an image file that Pillow reads.
        size: (H, W) in the annotation file; None for annotations without image sizes, which are drawn on the image
            rotated by its EXIF orientation.
        at_least: a smaller (H, W) that suffices. A JPEG is then decoded at 1/8, 1/4 or 1/2 of its size: the smallest
            size that divides (H, W) and is at least this. Other files, and by default all files, are decoded at full
            size.
        drawn_upright: True if the labelling tool shows images rotated by their EXIF orientation.

    Raises:
        DatasetError: the file is missing or broken, has more than 8 bits per channel, or has another size.
    """
    factor = _reduction(size, at_least) if size is not None and at_least else 1
    image, stored, factor = _decode(path, size, factor, drawn_upright)
    if size is not None and image.size != (size[1] // factor, size[0] // factor):
        raise DatasetError(
            f"{path}: expected {size[1]} x {size[0]} pixels as in the annotation file, got {stored[0]} x {stored[1]}; "
            "use the images that the annotations were made on"
        )
    if image.mode not in EIGHT_BIT_MODES:
        raise DatasetError(f"{path}: expected an image of 8 bits per channel, got mode {image.mode}; convert it")
    return image if image.mode == "RGB" else image.convert("RGB")


def _reduction(size: tuple[int, int], at_least: tuple[int, int]) -> int:
    """Return the largest factor of libjpeg that keeps pixels aligned and the size at least ``at_least``."""
    for factor in (8, 4, 2):
        if all(s % factor == 0 and s // factor >= wanted for s, wanted in zip(size, at_least, strict=True)):
            return factor
    return 1


def _decode(
    path: Path, size: tuple[int, int] | None, factor: int, drawn_upright: bool
) -> tuple[Image.Image, tuple[int, int], int]:
    """Return the image, turned upright unless this is the stored size alone; its stored (W, H), and its reduction."""
    with _opened(path, "decode") as image:
        stored = _stored_size(image)[::-1]
        orientation = image.tag_v2.get(ExifTags.Base.Orientation) if image.format == "TIFF" else None  # type: ignore
        if has_wide_channels(image):
            raise DatasetError(f"{path}: {TOO_WIDE}")
        if size is not None and factor > 1 and sorted(stored) == sorted(size) and image.format in ("JPEG", "MPO"):
            image.draft(None, (stored[0] // factor, stored[1] // factor))
        else:
            factor = 1
        image.load()
        if orientation in _TURNED_BACK and size is not None and stored == size[::-1] != image.size:
            return image.transpose(_TURNED_BACK[orientation]), stored, factor  # Pillow turned it upright
        if size is not None and stored == size[::-1]:
            turned = ImageOps.exif_transpose(image) if drawn_upright else image
            return turned if turned.size == image.size else image, stored, factor
        return ImageOps.exif_transpose(image), stored, factor
