"""Readers of COCO's files: instances, boxes, panoptic segments; and of LVIS."""
