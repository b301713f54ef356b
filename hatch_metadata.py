"""Writes the README and the addresses of the project into the metadata of a distribution.

A package index shows the README by itself, so its relative links and pictures become absolute addresses in the
repository. The address of the repository is ``SEGPASTE_REPOSITORY`` or the remote *origin* of the checkout. Without
either the links become plain text and pictures are left out: no link is broken.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?://|#)([^)\s]+)\)")
PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?://)[^)]*\)\n+(?:\*[^*]+\*\n+)?", re.MULTILINE)
"""A picture of the repository in a paragraph of its own, and the line in italics that explains it."""


class ReadmeHook(MetadataHookInterface):
    """Sets ``readme`` and ``urls``, which pyproject.toml declares as dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set both keys."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        repository = repository_url(self.root)
        metadata["readme"] = {"content-type": "text/markdown", "text": published(text, repository)}
        metadata["urls"] = {} if repository is None else project_urls(repository)


def repository_url(root: str) -> str | None:
    """Return the address of the repository as https, or None if it is unknown."""
    address = os.environ.get("SEGPASTE_REPOSITORY", "")
    if not address:
        command = ["git", "-C", root, "remote", "get-url", "origin"]
        try:
            address = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            return None
    return as_https(address)


def as_https(address: str) -> str | None:
    """Return an address of git as https, without user, password and port of ssh; None for a path."""
    if short := re.fullmatch(r"(?:[^@/:]+@)?([^@/:]{2,}):(?!//)/*(.+)", address):
        host, path = short.groups()
    else:
        parts = urlsplit(address)
        if parts.scheme not in ("https", "ssh", "git+ssh") or not parts.hostname:
            return None
        port = f":{parts.port}" if parts.port and parts.scheme == "https" else ""
        host, path = f"{parts.hostname}{port}", parts.path
    return f"https://{host}/{path.strip('/').removesuffix('.git')}"


def project_urls(repository: str) -> dict[str, str]:
    """Return the addresses that an index lists beside a project."""
    return {
        "Repository": repository,
        "Documentation": f"{repository}/blob/HEAD/docs/index.md",
        "Changelog": f"{repository}/blob/HEAD/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


def published(text: str, repository: str | None) -> str:
    """Return a README whose links work outside of the repository."""
    if repository is None:
        return LINK.sub(lambda found: "" if found[1] else found[2], PICTURE.sub("", text))
    kinds = {"!": "raw", "": "blob"}
    return LINK.sub(lambda found: f"{found[1]}[{found[2]}]({repository}/{kinds[found[1]]}/HEAD/{found[3]})", text)
