"""Listings of a dataset for a check: its images, its annotations, and the problems of their files or samples."""
