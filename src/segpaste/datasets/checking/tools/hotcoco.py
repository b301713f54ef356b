"""hotcoco: evaluates COCO's instances."""

from __future__ import annotations

from segpaste.datasets.checking.tools.pycocotools import IGNORED
from segpaste.datasets.checking.tools.rules import Tool

TOOL = Tool("hotcoco", "hotcoco", "hotcoco", ("1.3.0",), "evaluates", ("coco",), (IGNORED,))
