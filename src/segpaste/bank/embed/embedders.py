"""Embedders of objects, by name, with weights from a file, never from the network.

- ``statistics``: colours, edges and outline, see `segpaste.bank.embed._statistics`; needs no weights.
- ``torchvision:NAME``, such as ``torchvision:resnet50``
- ``timm:NAME``, such as ``timm:vit_small_patch14_dinov2``
- ``open_clip:NAME``, such as ``open_clip:ViT-B-32``

A model gets the box of the object as a square of its input size, on a background of the mean colour of its training
set. Its features are the output of the layer before the last. More than 256 features are projected onto 256 by a fixed
random orthogonal matrix, which keeps angles up to a few percent; fewer are padded with zeros. Embeddings have length 1.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from segpaste.bank.embed._statistics import statistics_embedding
from segpaste.bank.embed.similarity import unit
from segpaste.bank.schema.record import EMBEDDING_SIZE
from segpaste.extras import require
from segpaste.types import tight_boxes

Embedder = Callable[[NDArray[np.uint8], NDArray[np.bool_]], NDArray[np.float32]]
"""Function of images [n, 3, h, w] and alphas [n, 1, h, w] that returns embeddings [n, 256]."""

_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_PROJECTION_SEED = 20190803


def make_embedder(name: str, weights: str | os.PathLike[str] | None = None, device: str = "cpu") -> Embedder:
    """Return the embedder of a name.

    Args:
        name: one of the names above.
        weights: file with the parameters of a model, saved by ``torch.save`` or in safetensors.
        device: device of the model.

    Raises:
        ValueError: the embedder or model is unknown, or weights are missing, not needed, or of another model.
        ImportError: the package of the model is not installed.
        OSError: the file cannot be read.
    """
    library, _, model = name.partition(":")
    if name == "statistics":
        if weights is not None:
            raise ValueError("embedder statistics: expected no weights, since it has none; leave them out")
        if device != "cpu":
            raise ValueError(f"embedder statistics: expected no device, since it runs on the CPU, got {device!r}")
        return statistics_embedding
    if library not in _MAKERS or not model or ":" in model:
        raise ValueError(f"embedder: expected statistics, torchvision:NAME, timm:NAME or open_clip:NAME, got {name!r}")
    if weights is None:
        raise ValueError(f"embedder {name}: expected a file of weights, since nothing is downloaded; give its path")
    return _MAKERS[library](model, Path(weights), _device(device))


def _device(name: str) -> torch.device:
    """Return the device of a name; raise ValueError if it is not available."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device, dtype=torch.float32)
    except (RuntimeError, AssertionError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"device: expected an available device, such as cpu or cuda:0, got {name!r} ({reason:.80})"
        ) from error
    return device


class ModelEmbedder:
    """Embedder with a network.

    Args:
        network: network from [n, 3, side, side] to features [n, D].
        side: side of its input, pixels.
        normalisation: mean and standard deviation of the channels, for values in 0..1.
        device: device of the network.
    """

    def __init__(self, network: nn.Module, side: int, normalisation: tuple[Any, Any], device: torch.device) -> None:
        self.network = network.to(device).eval()
        self.side, self.device = side, device
        self._mean, self._std = (
            torch.tensor(tuple(values), dtype=torch.float32, device="cpu").view(3, 1, 1) for values in normalisation
        )

    @torch.inference_mode()
    def __call__(self, images: NDArray[np.uint8], alphas: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Embed objects; see `Embedder`."""
        if not len(images):
            return np.zeros((0, EMBEDDING_SIZE), np.float32)
        masks = torch.from_numpy(alphas)[:, 0]
        boxes = tight_boxes(masks).to(torch.int64).tolist()
        inputs = [self._input(*item) for item in zip(torch.from_numpy(images), masks, boxes, strict=True)]
        features = self.network(torch.stack(inputs).to(self.device)).float().cpu().flatten(1).numpy()
        has_object = np.asarray(alphas.any((1, 2, 3)))
        return projected(features) * has_object[:, None]

    def _input(self, image: Tensor, mask: Tensor, box: list[int]) -> Tensor:
        """Return the box of the object, [3, side, side], padded to a square with 0 in the normalised values."""
        x1, y1, x2, y2 = box
        colours = (image[:, y1:y2, x1:x2] / 255 - self._mean) / self._std * mask[y1:y2, x1:x2]
        extra = max(x2 - x1, y2 - y1, 1)
        right, low = extra - (x2 - x1), extra - (y2 - y1)
        square = functional.pad(colours, (right // 2, right - right // 2, low // 2, low - low // 2))
        size = (self.side, self.side)
        return functional.interpolate(square[None], size, mode="bilinear", antialias=True, align_corners=False)[0]


def projected(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return features [n, D] as vectors [n, 256] of length 1."""
    dims = features.shape[1]
    if dims > EMBEDDING_SIZE:
        normal = np.random.Generator(np.random.Philox(key=_PROJECTION_SEED)).normal(size=(dims, EMBEDDING_SIZE))
        basis, triangle = np.linalg.qr(normal)
        features = (features @ (basis * np.sign(np.diag(triangle)))).astype(np.float32)
    vectors = np.zeros((len(features), EMBEDDING_SIZE), np.float32)
    vectors[:, : features.shape[1]] = features
    return unit(vectors)


def _torchvision(name: str, weights: Path, device: torch.device) -> ModelEmbedder:
    from torchvision import models

    if name not in models.list_models(module=models):
        raise ValueError(f"torchvision:{name}: expected a model of torchvision.models for classification")
    network = models.get_model(name, weights=None)
    linear = [key for key, module in network.named_modules() if isinstance(module, nn.Linear)]
    if linear:
        parent, _, last = linear[-1].rpartition(".")
        setattr(network.get_submodule(parent), last, nn.Identity())
    _load(network, _read_weights(weights), f"torchvision:{name}", weights, linear[-1:])
    return ModelEmbedder(network, 224, _IMAGENET, device)


def _timm(name: str, weights: Path, device: torch.device) -> ModelEmbedder:
    timm = require("timm")
    if not timm.is_model(name):
        raise ValueError(f"timm:{name}: expected a model of timm.list_models()")
    network = timm.create_model(name, pretrained=False)
    head = [key for key, module in network.named_modules() if module is network.get_classifier() and key]
    network.reset_classifier(0)
    _load(network, _read_weights(weights), f"timm:{name}", weights, head)
    config = timm.data.resolve_model_data_config(network)
    return ModelEmbedder(network, config["input_size"][-1], (config["mean"], config["std"]), device)


def _open_clip(name: str, weights: Path, device: torch.device) -> ModelEmbedder:
    open_clip = require("open_clip")
    if name not in open_clip.list_models():
        raise ValueError(f"open_clip:{name}: expected a model of open_clip.list_models()")
    visual = open_clip.create_model(name, pretrained=None).visual
    found = {key.removeprefix("module."): value for key, value in _read_weights(weights).items()}
    found = {key.removeprefix("visual."): value for key, value in found.items() if key.startswith("visual.")}
    _load(visual, found, f"open_clip:{name}", weights, [])
    size = visual.image_size
    side = int(size if isinstance(size, int) else size[0])
    normalisation = (
        visual.image_mean or open_clip.OPENAI_DATASET_MEAN,
        visual.image_std or open_clip.OPENAI_DATASET_STD,
    )
    return ModelEmbedder(visual, side, normalisation, device)


_MAKERS: Mapping[str, Callable[[str, Path, torch.device], ModelEmbedder]] = {
    "torchvision": _torchvision,
    "timm": _timm,
    "open_clip": _open_clip,
}


def _read_weights(path: Path) -> dict[str, Tensor]:
    """Return the parameters in a file, by name."""
    if not path.is_file():
        raise ValueError(f"{path}: expected a file of weights, found none; check the path")
    try:
        if path.suffix == ".safetensors":
            found = require("safetensors.torch").load_file(str(path))
        else:
            found = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # torch, pickle and safetensors have no common base
        reason = " ".join(str(error).split())[:120]
        raise ValueError(f"{path}: expected weights saved by torch.save or safetensors, got {reason}") from error
    for key in ("state_dict", "model"):
        if isinstance(found, dict) and isinstance(found.get(key), dict):
            found = found[key]
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise ValueError(f"{path}: expected a state_dict, names and tensors, got something else")
    return found


def _load(network: nn.Module, found: dict[str, Tensor], name: str, path: Path, without: list[str]) -> None:
    """Load all parameters of a network, except those of the removed layers ``without``."""
    kept = {key: value for key, value in found.items() if key.rpartition(".")[0] not in without}
    own = network.state_dict()
    wrong = sorted(set(kept) ^ set(own) | {key for key in set(kept) & set(own) if kept[key].shape != own[key].shape})
    if wrong:
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise ValueError(
            f"{path}: expected the weights of {name}, got weights that differ in {wrong[0]}{more}; give the file for "
            "this model"
        )
    network.load_state_dict(kept)
