"""Datasets of maps: files of the classes, objects, depth or normals of each image."""
