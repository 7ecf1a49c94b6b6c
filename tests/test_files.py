import errno
import os
from pathlib import Path

import pytest

from costmodel.errors import CostModelError
from costmodel.files import write_whole


def test_the_old_content_is_replaced_and_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file.json"
    for content in (b"first, and longer", b"second"):
        write_whole(path, content)
        assert path.read_bytes() == content
    assert [entry.name for entry in path.parent.iterdir()] == ["file.json"]


def test_a_disk_that_is_full_leaves_the_old_content_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.json"
    write_whole(path, b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CostModelError, match=r"Cannot write .*file\.json: No space left on device"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.json"]


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CostModelError, match=r"Cannot write .*inside: File exists"):
        write_whole(tmp_path / "file" / "inside", b"")
