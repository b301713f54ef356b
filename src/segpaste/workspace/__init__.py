"""Long runs on disk: claim a folder, write files whole, note what is done, publish, heal what a kill left.

All of it is durable against a crash of the machine. Every file that the package writes for a user goes through
`write_whole` or `WholeFiles`, and every folder that appears under its final name through `NewFolder` or `Workspace`:

- `Workspace`: a run in steps that ends as a new folder, and resumes where it was interrupted.
- `Run`: the same without the new folder, for what is kept where it is, or goes elsewhere.
- `NewFolder`: a result that is written at one go, and is begun again where it was interrupted.

Caches that check what they read need none of it.
"""

from segpaste.workspace._locks import lock_folder
from segpaste.workspace.adopting import adopt_step
from segpaste.workspace.new_folder import MARKER, NewFolder, expect_free, marker_text, partial_of
from segpaste.workspace.runs import Notes, Run, Workspace, read_fingerprint
from segpaste.workspace.whole import Content, WholeFiles, naming, write_whole

__all__ = [
    "MARKER",
    "Content",
    "NewFolder",
    "Notes",
    "Run",
    "WholeFiles",
    "Workspace",
    "adopt_step",
    "expect_free",
    "lock_folder",
    "marker_text",
    "naming",
    "partial_of",
    "read_fingerprint",
    "write_whole",
]
