"""Health of a dataset: all problems of its files, photo by photo and annotation by annotation, and its statistics."""
