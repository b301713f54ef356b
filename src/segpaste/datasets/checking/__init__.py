"""Check of a dataset: all problems of its files, image by image and annotation by annotation, and its statistics."""
