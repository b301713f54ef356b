"""Conversion of batches and objects of RF-DETR."""
