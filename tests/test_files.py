import errno
import os
from pathlib import Path

import pytest

from costmodel.errors import CostModelError
from costmodel.files import replacing, write_whole


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


def test_two_writers_at_once_leave_one_content_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, fsync = tmp_path / "file.json", os.fsync

    def meanwhile(descriptor: int) -> None:
        """While one waits for the disk, another writes the same file."""
        monkeypatch.undo()
        write_whole(path, b"second")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", meanwhile)
    write_whole(path, b"first")
    assert path.read_bytes() == b"first"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.json"]


def test_a_block_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("old")

    def fail() -> None:
        with replacing(path) as partial:
            partial.write_text("new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with replacing(path):
        pass
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
