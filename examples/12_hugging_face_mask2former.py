"""Train Mask2Former of Hugging Face transformers, with its Trainer, on pasted batches.

`CopyPasteCollator` pads, pastes, normalises and makes the labels of a model; `with_copy_paste` makes a Trainer that
evaluates without pastes. The model here is tiny and has random weights; a checkpoint and its image processor take its
place.

    python examples/12_hugging_face_mask2former.py
    python examples/12_hugging_face_mask2former.py data.yaml --steps 1000
"""

# %%
import argparse
import tempfile
from functools import partial
from pathlib import Path

import torch
from torchvision.transforms import v2
from transformers import Mask2FormerConfig, Mask2FormerForUniversalSegmentation, SwinConfig, Trainer, TrainingArguments

from segpaste import BatchCopyPaste
from segpaste.datasets import open_dataset
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.integrations.huggingface import CopyPasteCollator, to_mask_labels, with_copy_paste
from segpaste.viz import draw_instances, gallery_png

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("data", nargs="?", help="a folder or a data.yaml; by default scenes")
parser.add_argument("--steps", type=int, default=4, help="training steps, default: 4")
parser.add_argument("--out", type=Path, default="example_out", help="folder of the picture")
args = parser.parse_args()

# %% [markdown]
# ## Data
#
# The Trainer loads single samples, so the dataset itself brings photos to one size. Transforms of torchvision move
# all fields of a sample.

# %%
resize = v2.RandomResizedCrop((96, 96), scale=(0.5, 1.0))
scenes = SceneDataset(16, SceneConfig(height=96, width=96), seed=0, modalities=["instance"])
dataset = open_dataset(args.data, transforms=resize) if args.data else scenes

# %% [markdown]
# ## Model and collator
#
# Paste first, normalise after it: so the collator takes the mean and the standard deviation of the image processor,
# and the processor itself is not called. Labels count from 0, as the model's.

# %%
torch.manual_seed(0)
stages = [f"stage{n}" for n in range(1, 5)]
backbone = SwinConfig(
    image_size=96, embed_dim=12, depths=[1] * 4, num_heads=[1] * 4, window_size=4, out_features=stages
)
sizes = {"hidden_size": 32, "mask_feature_size": 32, "feature_size": 32, "dim_feedforward": 32}
depth = {"encoder_layers": 1, "decoder_layers": 2, "encoder_feedforward_dim": 32, "num_attention_heads": 2}
names = dict(enumerate(dataset.class_names))
config = Mask2FormerConfig(backbone_config=backbone, num_queries=20, id2label=names, **sizes, **depth)
model = Mask2FormerForUniversalSegmentation(config)

augment, pasted = BatchCopyPaste(), []
augment.register_forward_hook(lambda module, inputs, output: pasted.append(output))  # for the picture
convert = partial(to_mask_labels, mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])
collator = CopyPasteCollator(augment, max_instances=32, convert=convert)

# %% [markdown]
# ## Training
#
# The Trainer must keep the samples whole: `remove_unused_columns=False`. With workers the paste runs in their
# processes. Of the first pasted batch a picture is saved in the Trainer's folder, which here is gone with it.

# %%
with tempfile.TemporaryDirectory() as folder:
    options = {"max_steps": args.steps, "per_device_train_batch_size": 4, "logging_steps": 1, "learning_rate": 1e-3}
    quiet = {"report_to": [], "save_strategy": "no", "disable_tqdm": True}
    arguments = TrainingArguments(folder, remove_unused_columns=False, **options, **quiet)
    trainer_cls = with_copy_paste(Trainer)  # an eval_dataset is not pasted into
    trainer = trainer_cls(model, arguments, train_dataset=dataset, data_collator=collator)
    trainer.train()
losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
print("losses", ", ".join(f"{float(loss):.3f}" for loss in losses))

# %% [markdown]
# ## The picture
#
# The last batch, as it was before it was normalised.

# %%
samples = pasted[-1].to_batched().to_samples()
views = [draw_instances(sample, show_labels=False) for sample in samples]
picture = gallery_png(args.out / "12_hugging_face_mask2former.png", [views])
print("picture", picture)
