"""Batches and objects of RF-DETR as segpaste has them."""
