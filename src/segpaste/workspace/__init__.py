"""Long runs on disk: claim a folder, write whole files, record finished steps, publish, and clean up after a kill.

All of it survives a crash of the machine. Every file that the package writes for a user goes through `write_whole` or
`WholeFiles`, and every folder with a final name through `NewFolder` or `Workspace`:

- `Workspace`: a run in steps whose result is a new folder; after an interruption it resumes.
- `Run`: the same without the new folder, for results that stay in the folder of the run or are moved elsewhere.
- `NewFolder`: a result that is written in one step; after an interruption it restarts.

Caches that verify what they read need none of this.
"""

from segpaste.workspace.new_folder import MARKER, NewFolder, expect_free, lock_folder, marker_text, partial_of
from segpaste.workspace.runs import VERSION, Fingerprint, Notes, Run, Workspace, read_fingerprint
from segpaste.workspace.shards import adopt_step
from segpaste.workspace.whole import Content, WholeFiles, naming, write_whole

__all__ = [
    "MARKER",
    "VERSION",
    "Content",
    "Fingerprint",
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
