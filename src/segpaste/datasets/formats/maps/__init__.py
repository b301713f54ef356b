"""Datasets of maps: files for the classes, objects, depth or normals of each photo."""
