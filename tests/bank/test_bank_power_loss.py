"""After a power loss at any moment: a part that counts as done is whole, and so is a bank."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from photo_folder import NAMES, open_photos, write_photos

from power_loss import below, every_state, read_tree, restore, watched
from segpaste.bank import Selection, build_bank, open_bank
from segpaste.bank.format import WRITERS
from segpaste.workspace import MARKER


class TestBank:
    @pytest.mark.parametrize("kind", WRITERS)
    def test_build(self, tmp_path: Path, kind: Any) -> None:
        photos = open_photos(write_photos(tmp_path / "photos", 40))
        where = tmp_path / "build"
        where.mkdir()
        with watched(where) as disk:
            options: dict[str, Any] = {"crop_size": (8, 8), "selection": Selection(min_area_px=1)}
            build_bank(photos, where / "bank", class_names=NAMES, format=kind, **options)
        expected = read_tree(where / "bank")
        parts, banks = set(), 0
        for files in every_state(disk):
            for name in (name for name in files if name.startswith("bank.parts/parts/") and name.endswith(".json")):
                parts.add(name)
                assert len(files[name.replace(".json", ".rows")]) == json.loads(files[name])["size"]
            if found := below(files, "bank/"):
                banks += 1
                found.pop(MARKER, None)  # goes last
                assert found == expected
        assert len(parts) == 2
        assert banks
        for number, files in enumerate(disk.snapshots[-1]):
            with open_bank(restore(below(files, "bank/"), tmp_path / f"left{number}")) as bank:
                bank.verify()
