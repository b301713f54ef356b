"""Train RF-DETR with pastes in every training batch.

RF-DETR's `train` takes its data module from `rfdetr.training`; one that pastes is put in its place. Without an argument
a small folder is written from scenes, as Roboflow exports it. The model has random weights, few queries and a small
canvas here.

    python examples/17_rf_detr.py
    python examples/17_rf_detr.py FOLDER --epochs 50 --size 312
"""

# %%
import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import rfdetr
import rfdetr.training
from PIL import Image

from segpaste import BatchCopyPaste
from segpaste.integrations.rfdetr import with_copy_paste

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("data", nargs="?", type=Path, help="a folder of a Roboflow export; by default scenes are written")
parser.add_argument("--epochs", type=int, default=1, help="default: 1")
parser.add_argument("--size", type=int, default=96, help="image side in pixels, a multiple of 24, default: 96")
parser.add_argument("--out", type=Path, default="example_out", help="folder of the picture")
args = parser.parse_args()

# %% [markdown]
# ## A folder of a Roboflow export
#
# `segpaste augment scenes` writes rooms with their annotations. With a dataset of your own you can skip this part.

# %%


def write_rooms(folder: Path) -> Path:
    """Write eight rooms as a Roboflow folder, which validates on what it trains on, and return it."""
    options = ["--num", "8", "--size", "128", "--layout", "roboflow", "--out", str(folder)]
    subprocess.run([sys.executable, "-m", "segpaste", "augment", "scenes", *options], check=True)
    shutil.copytree(folder / "train", folder / "valid")
    return folder


args.out.mkdir(parents=True, exist_ok=True)
data = args.data or write_rooms(args.out / "rooms_roboflow")

# %% [markdown]
# ## Training
#
# The batch is pasted on the device of the model, before RF-DETR's own augmentations there. The first pasted batch is
# drawn to `copy_paste_batch.jpg` in its output folder.

# %%
augment = BatchCopyPaste()
counts = []
augment.register_forward_hook(lambda module, inputs, output: counts.append(int(output.instance_valid.sum())))
rfdetr.training.RFDETRDataModule = with_copy_paste(rfdetr.training.RFDETRDataModule, augment, max_instances=64)
few = {"group_detr": 1, "num_queries": 50, "num_select": 50}  # leave this out to train in earnest
model = rfdetr.RFDETRSegNano(pretrain_weights=None, resolution=args.size, device="cpu", **few)
model.train(
    dataset_dir=str(data),
    output_dir=str(args.out / "rfdetr"),
    epochs=args.epochs,
    batch_size=4,
    num_workers=0,
    accelerator="cpu",
    augmentation_backend="torchvision",
    tensorboard=False,
    use_ema=False,
    dont_save_weights=True,  # of a model that has learned nothing
    multi_scale=False,
)
print("objects in the batches:", ", ".join(map(str, counts)))

# %% [markdown]
# ## The picture

# %%
picture = args.out / "17_rf_detr.png"
Image.open(args.out / "rfdetr" / "copy_paste_batch.jpg").save(picture)
print("picture", picture)
