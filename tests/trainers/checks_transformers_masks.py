"""A small segment-anything model with random weights makes masks of boxes, through the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from pycocotools.coco import COCO
from transformers import (
    SamConfig,
    SamImageProcessor,
    SamMaskDecoderConfig,
    SamModel,
    SamProcessor,
    SamPromptEncoderConfig,
    SamVisionConfig,
)

sys.path.insert(0, str(Path(__file__).parents[1]))

from segpaste.cli import main
from segpaste.datasets.conversion.masks import SamMasker

SIDE, PATCH = 64, 16


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model and its processor, saved."""
    folder = tmp_path_factory.mktemp("sam")
    vision = SamVisionConfig(
        hidden_size=32,
        output_channels=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=SIDE,
        patch_size=PATCH,
        window_size=2,
        global_attn_indexes=[1],
        mlp_dim=32,
        num_pos_feats=8,
    )
    prompt = SamPromptEncoderConfig(hidden_size=16, image_size=SIDE, patch_size=PATCH, mask_input_channels=4)
    decoder = SamMaskDecoderConfig(
        hidden_size=16, mlp_dim=32, num_hidden_layers=1, num_attention_heads=2, iou_head_hidden_dim=16
    )
    torch.manual_seed(0)
    parts = {"vision_config": vision, "prompt_encoder_config": prompt, "mask_decoder_config": decoder}
    SamModel(SamConfig(**{name: part.to_dict() for name, part in parts.items()})).save_pretrained(folder)
    size, low = {"longest_edge": SIDE}, {"longest_edge": SIDE // 4}
    pad, low_pad = {"height": SIDE, "width": SIDE}, {"height": SIDE // 4, "width": SIDE // 4}
    SamProcessor(SamImageProcessor(size=size, pad_size=pad, mask_size=low, mask_pad_size=low_pad)).save_pretrained(
        folder
    )
    return folder


def write_boxes(folder: Path, num: int) -> Path:
    rng = np.random.default_rng(0)
    (folder / "photos").mkdir()
    Image.fromarray(rng.integers(0, 255, (40, 50, 3), np.uint8)).save(folder / "photos" / "a.png")
    boxes = [[i % 20, i % 13, 9 + i % 7, 11 + i % 5] for i in range(num)]
    rows = [{"id": i + 1, "image_id": 1, "category_id": 1, "bbox": box, "iscrowd": 0} for i, box in enumerate(boxes)]
    image = {"id": 1, "file_name": "a.png", "height": 40, "width": 50}
    tables = {"images": [image], "annotations": rows, "categories": [{"id": 1, "name": "cup"}]}
    path = folder / "boxes.json"
    path.write_text(json.dumps(tables))
    return path


def test_masks_are_those_of_the_model(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """More boxes than one call takes; each mask is that of its box alone."""
    path = write_boxes(tmp_path, 70)
    words = [str(path), "--images", str(tmp_path / "photos"), "--to", "coco", "--out", str(tmp_path / "out")]
    assert main(["convert", *words, "--masks-from", str(model)]) == 0
    assert capsys.readouterr().err == ""
    written = COCO(str(tmp_path / "out" / "annotations.json"))
    sam, processor = SamModel.from_pretrained(model).eval(), SamProcessor.from_pretrained(model)
    pixels = np.array(Image.open(tmp_path / "photos" / "a.png"))
    for number in (1, 2, 69, 70):
        row = written.anns[number]
        x, y, width, height = row["bbox"]
        inputs = processor(images=pixels, input_boxes=[[[x, y, x + width, y + height]]], return_tensors="pt")
        with torch.inference_mode():
            out = sam(pixel_values=inputs["pixel_values"], input_boxes=inputs["input_boxes"].float())
        best = int(out.iou_scores[0, 0].argmax())
        masks = processor.image_processor.post_process_masks(
            out.pred_masks, inputs["original_sizes"], inputs["reshaped_input_sizes"]
        )
        expected = np.zeros((40, 50), bool)
        expected[y : y + height, x : x + width] = masks[0][0, best].numpy()[y : y + height, x : x + width]
        quality = row["mask_quality"]
        if not expected.any():
            assert quality["is_box"]
            continue
        assert (written.annToMask(row) != expected).mean() < 0.002  # sums of other order move a border pixel
        assert quality["predicted_iou"] == pytest.approx(float(out.iou_scores[0, 0, best]), abs=1e-4)
        assert quality["box_covered_frac"] == pytest.approx(expected.sum() / (width * height), abs=0.02)


def test_a_folder_that_holds_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_boxes(tmp_path, 1)
    words = [str(path), "--images", str(tmp_path / "photos"), "--to", "coco", "--out", str(tmp_path / "out")]
    assert main(["convert", *words, "--masks-from", str(tmp_path / "photos")]) == 2
    err = capsys.readouterr().err
    assert "photos: expected a segment-anything model, a folder or a name on the Hugging Face hub" in err
    assert len(err.splitlines()) == 1


def test_a_photo_without_boxes(model: Path) -> None:
    masks, scores = SamMasker(str(model))(torch.zeros(3, 40, 50, dtype=torch.uint8), torch.zeros(0, 4))
    assert (masks.shape, scores.shape) == ((0, 40, 50), (0,))
