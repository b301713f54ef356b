"""Train an Ultralytics segmentation model from a data.yaml, with pastes in every training batch.

`with_copy_paste` makes a trainer out of a trainer: everything else is that of Ultralytics. Without an argument a
small folder of coloured shapes is written first. The model has random weights; give a `.pt` file to start from
trained ones.

    python examples/13_ultralytics_segmentation.py
    python examples/13_ultralytics_segmentation.py data.yaml --epochs 100 --size 640
"""

# %%
import argparse
import random
from pathlib import Path

from PIL import Image, ImageDraw
from ultralytics import YOLO
from ultralytics.models.yolo.segment import SegmentationTrainer

from segpaste import BatchCopyPaste
from segpaste.integrations.ultralytics import with_copy_paste
from segpaste.viz import draw_instances, gallery_png

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("data", nargs="?", type=Path, help="a data.yaml; by default shapes are drawn")
parser.add_argument("--model", default="yolo11n-seg.yaml", help="a model of Ultralytics, default: yolo11n-seg.yaml")
parser.add_argument("--epochs", type=int, default=1, help="default: 1")
parser.add_argument("--size", type=int, default=128, help="image side in pixels, default: 128")
parser.add_argument("--out", type=Path, default="example_out", help="folder of the picture")
args = parser.parse_args()

# %% [markdown]
# ## A YOLO folder
#
# A row of a label file is a class and the corners of a polygon, as fractions of the image. With a dataset of your own
# you can skip this part.

# %%


def write_shapes(folder: Path, num_images: int) -> Path:
    """Draw triangles and squares, write them as a YOLO dataset, and return its data.yaml."""
    draw = random.Random(0)
    for kind in ("images", "labels"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    for number in range(num_images):
        image = Image.new("RGB", (128, 128), (draw.randrange(80, 140),) * 3)
        rows = []
        for _ in range(draw.randint(1, 3)):
            label, x, y, side = draw.randrange(2), draw.randint(4, 80), draw.randint(4, 80), draw.randint(20, 44)
            corners = [(x, y), (x + side, y), (x + side, y + side), (x, y + side)][label:]
            ImageDraw.Draw(image).polygon(corners, fill=tuple(draw.randrange(256) for _ in range(3)))
            rows.append(f"{label} " + " ".join(f"{v / 128:.4f}" for corner in corners for v in corner))
        image.save(folder / "images" / f"{number}.png")
        (folder / "labels" / f"{number}.txt").write_text("\n".join(rows))
    yaml = f"path: {folder.resolve()}\ntrain: images\nval: images\nnames: [square, triangle]\n"
    (folder / "data.yaml").write_text(yaml)
    return folder / "data.yaml"


data = args.data or write_shapes(args.out / "shapes_yolo", num_images=16)

# %% [markdown]
# ## Training
#
# The trainer loads masks in full, pastes on its device, and then reduces them as its loader would have. Its own
# copy-paste is switched off.

# %%
augment, batches, losses = BatchCopyPaste(), [], []
augment.register_forward_hook(lambda module, inputs, output: batches.append((inputs[0], output)))  # for the picture
model = YOLO(args.model)
model.add_callback("on_train_batch_end", lambda trainer: losses.append(trainer.loss.item()))
model.train(
    trainer=with_copy_paste(SegmentationTrainer, augment, max_instances=64),
    data=data,
    epochs=args.epochs,
    imgsz=args.size,
    batch=4,
    close_mosaic=0,
    workers=0,
    project=str(args.out.resolve() / "ultralytics"),
    exist_ok=True,
    plots=False,
    verbose=False,
)
print("losses", ", ".join(f"{loss:.2f}" for loss in losses[:8]))

# %% [markdown]
# ## The picture
#
# The last batch before and after the paste. Mosaic has made each of its images from four.

# %%
before, after = batches[-1]
rows = [
    [draw_instances(sample, show_labels=False) for sample in batch.to_batched().to_samples()]
    for batch in (before, after)
]
picture = gallery_png(args.out / "13_ultralytics_segmentation.png", rows, names=("before", "after"))
print("picture", picture)
