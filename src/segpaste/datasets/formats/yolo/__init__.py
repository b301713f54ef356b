"""YOLO datasets: their data YAML, folders and label files, read into samples and written from them."""
