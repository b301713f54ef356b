"""Compile a training step with the paste in it.

Augmentation, model and loss are one graph without a break. The values of a batch, how many objects it has and which
are pasted, never compile it again.

    python examples/10_compiled_step.py
    python examples/10_compiled_step.py --backend inductor
"""

# %%
import argparse
import time
from pathlib import Path

import torch

from segpaste import BatchCopyPaste, create_coco_dataloader
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.viz import draw_instances, gallery_png

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--backend", default="eager", help="of torch.compile: eager, the default, or inductor")
parser.add_argument("--out", type=Path, default="example_out", help="folder of the picture")
args = parser.parse_args()

# %% [markdown]
# ## The step
#
# The backend `eager` traces the graph and runs it as it is, which shows that it is one. Train with `inductor`,
# torch's default: it generates code, and its first step takes half a minute.
#
# With `fullgraph=True` anything that would break the graph is an error. Images are uint8 up to the model; normalise
# after the paste. A batch needs seeds for its draws, which those of the loader have.

# %%
torch.manual_seed(0)
augment = BatchCopyPaste()
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 1, 3, padding=1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)


def loss_of(batch):
    """Return the loss of telling objects from background, and the augmented batch."""
    augmented = augment(batch)
    covered = augmented.instance_masks.any(1, keepdim=True).float()
    logits = model(augmented.images / 255)
    return torch.nn.functional.binary_cross_entropy_with_logits(logits, covered), augmented


compiled = torch.compile(loss_of, fullgraph=True, backend=args.backend)

# %% [markdown]
# ## Training
#
# The first step compiles. From then on `fail_on_recompile` makes any further compilation an error.

# %%
scenes = SceneDataset(16, SceneConfig(height=128, width=128, rays_per_px=1), seed=0, modalities=["instance"])
loader = create_coco_dataloader(dataset=scenes, batch_size=4, size=128, scale_range=(0.8, 1.2), max_instances=24)
num_steps = 0
for epoch in range(3):
    loader.set_epoch(epoch)
    for batch in loader:
        start = time.perf_counter()
        loss, augmented = compiled(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.compiler.set_stance("fail_on_recompile")
        num_steps += 1
        print(f"loss {loss.item():.3f} in {time.perf_counter() - start:.3f} s")
torch.compiler.set_stance("default")
print(num_steps, "steps, compiled once")

# %% [markdown]
# ## The picture
#
# What the model saw in the last step.

# %%
samples = augmented.to_batched().to_samples()
views = [draw_instances(sample, show_labels=False) for sample in samples]
picture = gallery_png(args.out / "10_compiled_step.png", [views])
print("picture", picture)
