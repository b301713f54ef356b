"""Conversion of batches and objects of Ultralytics."""
