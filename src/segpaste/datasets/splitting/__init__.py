"""Datasets divided into parts: `split_dataset`, the stratification, and the files of each part by format."""
