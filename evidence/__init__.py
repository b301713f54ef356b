"""Measurements of what pasting changes in a trained model: programs for two cores, each with a protocol.

``python -m evidence.rare_classes`` and its like train, compare and write a page. A protocol in `evidence/protocols` is
committed before its first run. Every run is a file of its own, so a program that is stopped continues where it was. Not
part of the installed package.
"""
