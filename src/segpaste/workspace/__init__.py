"""Long runs on disk: claim a folder, write files whole, publish the result. Durable against a crash of the machine.

Every file that the package writes for a user goes through `write_whole` or `WholeFiles`, and every folder that appears
under its final name through `publish`. Caches that check what they read need neither.
"""

from segpaste.workspace.claims import lock_folder
from segpaste.workspace.new_folder import MARKER, NewFolder, expect_free, marker_text, partial_of
from segpaste.workspace.runs import Notes, Run, Workspace, read_fingerprint
from segpaste.workspace.whole import (
    Content,
    WholeFiles,
    flush,
    is_partial,
    make_folder,
    naming,
    publish,
    rename_flushed,
    sweep,
    write_json,
    write_whole,
)

__all__ = [
    "MARKER",
    "Content",
    "NewFolder",
    "Notes",
    "Run",
    "WholeFiles",
    "Workspace",
    "expect_free",
    "flush",
    "is_partial",
    "lock_folder",
    "make_folder",
    "marker_text",
    "naming",
    "partial_of",
    "publish",
    "read_fingerprint",
    "rename_flushed",
    "sweep",
    "write_json",
    "write_whole",
]
