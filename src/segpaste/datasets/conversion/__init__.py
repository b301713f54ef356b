"""Conversion of a dataset from any format that can be read to any that can be written."""
