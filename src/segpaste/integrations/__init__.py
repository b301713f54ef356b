"""Adapters between batches and the trainers that people already run: one module per framework, imported by its name.

Nothing of a framework is imported before its module is, so `segpaste` needs none of them:

- `segpaste.integrations.torchvision`: the lists that torchvision's detection models train on.
- `segpaste.integrations.huggingface`: the labels of DETR-like and mask-classification models of transformers.
- `segpaste.integrations.ultralytics`: trainers of YOLO models that paste into their batches.
- `segpaste.integrations.rfdetr`: data modules of RF-DETR that paste into their batches.
- `segpaste.integrations.lightning`: a callback that pastes into training batches, and a DataModule.
"""

__all__: list[str] = []
