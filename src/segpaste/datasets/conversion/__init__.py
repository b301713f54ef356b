"""Conversion of a dataset from any format that is read into any that is written."""
