"""Support for torchvision's transforms: tags of the fields, kernels, and rejected transforms."""
