"""What pasting changes in a trained model: programs that anybody can run on two cores, a protocol for each.

``python -m evidence.rare_classes`` and its like train, compare and write a page. A protocol in `evidence/protocols` is
committed before its first run. Every run is a file of its own, so a program that is stopped continues where it was. Not
part of the installed package.
"""
