"""Label Studio's bitmasks, vectors, and paths of Windows in the addresses of images."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from drawn_files import ELL, ELL_POINTS, SIZE, percents, photo, region, task, write_label_studio
from PIL import Image

from on_disk import noise
from segpaste import convert_dataset
from segpaste.datasets import DatasetError, open_dataset


def data_url(pixels: Any, kind: str = "PNG") -> str:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def rgba(mask: Any, *, opaque: bool) -> Any:
    """Return a mask in white: on transparent pixels, or on black ones."""
    pixels = np.zeros((*mask.shape, 4), np.uint8)
    pixels[mask] = 255
    pixels[..., 3] |= np.uint8(255 * opaque)
    return pixels


def bitmask(text: str) -> Any:
    return region("m", "bitmasklabels", "cup", value={"imageDataURL": text, "format": "png"})


def vector(points: Any, *, closed: bool = True, **more: Any) -> Any:
    ids = ["v0", "v1", "v2", "v3", "v4", "v5"][: len(points)]
    vertices = [
        {"id": own, "x": x, "y": y, "prevPointId": before, "isBezier": False, **more}
        for own, before, (x, y) in zip(ids, [None, *ids], points, strict=False)
    ]
    return region("v", "vectorlabels", "cup", value={"vertices": vertices, "closed": closed})


def opened(folder: Path, *results: Any) -> Any:
    return open_dataset(write_label_studio(folder, [task(1, "a.png", list(results))]))


class TestBitmasks:
    @pytest.mark.parametrize(
        "pixels",
        [rgba(ELL, opaque=False), rgba(ELL, opaque=True), rgba(ELL, opaque=True)[..., :3], ELL.astype(np.uint8) * 255],
        ids=["transparent", "opaque", "rgb", "grey"],
    )
    def test_is_read(self, tmp_path: Path, pixels: Any) -> None:
        photos = opened(tmp_path, bitmask(data_url(pixels)))
        np.testing.assert_array_equal(photos[0].instance_masks, [ELL])
        assert "imageDataURL" not in str(photos.annotation_rows(0))

    def test_black_on_transparent_pixels_is_drawn(self, tmp_path: Path) -> None:
        pixels = rgba(ELL, opaque=False)
        pixels[..., :3] = 0
        np.testing.assert_array_equal(opened(tmp_path, bitmask(data_url(pixels)))[0].instance_masks, [ELL])

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (data_url(np.zeros((4, 6), np.uint8)), "expected a mask of 40 x 20 pixels, got 6 x 4; export it again"),
            ("data:image/png;base64,aGVsbG8=", "expected a mask, a PNG as a data URL, got something else"),
            ("data:image/png;base64,@", "expected a mask, a PNG as a data URL, got something else"),
            (3, "expected imageDataURL of a bitmask"),
        ],
    )
    def test_broken(self, tmp_path: Path, text: Any, message: str) -> None:
        with pytest.raises(DatasetError, match=rf"project-1\.json: task 1: region 'm': {message}"):
            opened(tmp_path, bitmask(text))


class TestVectors:
    def test_a_closed_one_is_an_outline(self, tmp_path: Path) -> None:
        (tmp_path / "in").mkdir()
        photos = opened(tmp_path / "in", vector(percents(ELL_POINTS)))
        np.testing.assert_array_equal(photos[0].instance_masks, [ELL])
        losses = convert_dataset(tmp_path / "in", tmp_path / "out", "coco").losses
        assert losses == {"image files that the annotations do not list": 2}

    def test_an_open_one_is_no_object(self, tmp_path: Path) -> None:
        line = vector(percents(ELL_POINTS[:3]), closed=False)
        with pytest.warns(UserWarning, match="1 open vector without an area are not objects"):
            photos = opened(tmp_path, line, bitmask(data_url(rgba(ELL, opaque=True))))
        assert photos[0].num_instances == 1
        assert photos.image_row(0)["shapes"][0]["vertices"] == line["value"]["vertices"]

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            ({"isBezier": True}, "expected a vector of straight lines, each from the vertex before, got a curve; draw"),
            ({"prevPointId": "v9"}, "expected a vector of straight lines, .* got a branch; draw it as a polygon"),
            ({"x": "left"}, "expected vertices of a vector with 'x' and 'y' in percent"),
        ],
    )
    def test_what_is_no_outline(self, tmp_path: Path, more: Any, message: str) -> None:
        with pytest.raises(DatasetError, match=message):
            opened(tmp_path, vector(percents(ELL_POINTS), **more))


@pytest.mark.parametrize("address", ["C:\\data\\photos\\{}\\a.png", "photos\\{}\\a.png", "photos/{}/a.png"])
@pytest.mark.parametrize("is_quoted", [False, True])
def test_paths_of_another_machine(tmp_path: Path, address: str, is_quoted: bool) -> None:
    """Images of one name are told apart by their folders; `images/a.png` is none of them."""
    tasks = []
    for number, folder in enumerate(("left", "right"), start=1):
        path = address.format(folder)
        named = task(number, "a.png", [])
        named["data"]["image"] = f"/data/local-files/?d={quote(path, safe='') if is_quoted else path}"
        tasks.append(named)
        photo(tmp_path / "photos" / folder / "a.png", 10 + number, SIZE)
    photos = open_dataset(write_label_studio(tmp_path, tasks))
    assert [photos.file_name(index) for index in (0, 1)] == ["photos/left/a.png", "photos/right/a.png"]
    np.testing.assert_array_equal(photos[1].image.permute(1, 2, 0), noise(SIZE, 12))
