"""Adapters between batches and the trainers of other frameworks: one module per framework, imported by its name.

A framework is imported only by its own module, so `segpaste` needs none of them:

- `segpaste.integrations.torchvision`: the lists that torchvision's detection models train on.
- `segpaste.integrations.huggingface`: the labels of DETR-like and mask-classification models of transformers.
- `segpaste.integrations.ultralytics`: trainers of YOLO models that paste into their batches.
- `segpaste.integrations.rfdetr`: data modules of RF-DETR that paste into their batches.
- `segpaste.integrations.lightning`: a callback that pastes into training batches, and a DataModule.
"""

__all__: list[str] = []
