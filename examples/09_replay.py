"""Record augmented samples and make them again, bit for bit.

A record is one line of JSON. With the dataset it is enough to make the very image again on which, say, a loss
exploded, without the rest of its batch.

    python examples/09_replay.py
    python examples/09_replay.py data.yaml
"""

# %%
import argparse
from pathlib import Path

import torch

from segpaste import BatchCopyPaste, create_coco_dataloader
from segpaste.datasets import open_dataset
from segpaste.datasets.scenes import SceneDataset
from segpaste.replay import ReplayRecord, records, replay
from segpaste.viz import draw_instances, gallery_png

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("data", nargs="?", help="a folder or a data.yaml; by default scenes")
parser.add_argument("--out", type=Path, default="example_out", help="folder of the picture")
args = parser.parse_args()

# %% [markdown]
# ## Record
#
# The loader's batches carry `sample_keys`, five numbers that name each sample. Together with the report of the paste
# they are all that a record needs.

# %%
dataset = open_dataset(args.data) if args.data else SceneDataset(num_scenes=8, seed=1)
loader = create_coco_dataloader(dataset=dataset, batch_size=4, size=256, max_instances=48, base_seed=7)
augment = BatchCopyPaste()
args.out.mkdir(parents=True, exist_ok=True)
with (args.out / "replay.jsonl").open("w") as file:
    for batch in loader:
        augmented, report = augment(batch, return_report=True)
        for record in records(augment, batch, augmented, report):
            file.write(record.to_json() + "\n")

# %% [markdown]
# ## Replay
#
# `sample_for` reads a sample again, jittered as it was. Only the target and the samples that were pasted from are
# read.

# %%
lines = (args.out / "replay.jsonl").read_text().splitlines()
row = int(report.num_placed.argmax())  # of the last batch
line = lines[row - batch.batch_size]
again = replay(ReplayRecord.from_json(line), loader.sample_for)
print(len(lines), "records, the one replayed has", len(line), "characters")

# %% [markdown]
# ## Compare
#
# `replay` has compared a digest already, and raises a `ReplayError` where the result is another one. Here each field
# is compared once more.

# %%
original = augmented.to_batched().to_samples()[row]
names = ["image", "boxes", "labels", "instance_masks", "semantic_map", "panoptic_map", "depth", "normals"]
present = [name for name in names if getattr(original, name) is not None]
same = [name for name in present if torch.equal(getattr(original, name), getattr(again, name))]
print("equal bit for bit:", ", ".join(same))
assert same == present

# %% [markdown]
# ## The picture

# %%
views = [draw_instances(sample, class_names=dataset.class_names) for sample in (original, again)]
picture = gallery_png(args.out / "09_replay.png", [views], columns=("in training", "replayed"))
print("picture", picture)
