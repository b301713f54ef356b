"""How torchvision's transforms move the fields of a container."""
