"""Batches and objects of Ultralytics as segpaste has them."""
