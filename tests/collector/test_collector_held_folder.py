from pathlib import Path

import pytest

from costmodel.errors import CostModelError
from costmodel.failures import last_line
from costmodel.liveness import HeldFolder

pytestmark = pytest.mark.white_box


def test_the_next_folder_deletes_those_that_nobody_holds(tmp_path: Path) -> None:
    (tmp_path / "held-left").mkdir()
    (tmp_path / "held-left" / "a.so").touch()
    (tmp_path / "other").mkdir()
    first, second = HeldFolder("held-", tmp_path), HeldFolder("held-", tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([first.path, second.path, tmp_path / "other"])
    assert first.path.name.startswith("held-")
    first.delete()
    first.delete()
    assert sorted(tmp_path.iterdir()) == sorted([second.path, tmp_path / "other"])
    second.delete()
    assert list(tmp_path.iterdir()) == [tmp_path / "other"]


def test_a_folder_is_made_where_temporary_files_go(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = HeldFolder("held-")
    assert folder.path.parent == tmp_path
    folder.delete()


def test_a_link_to_elsewhere_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    (tmp_path / "held-link").symlink_to(precious)
    HeldFolder("held-", tmp_path).delete()
    assert (precious / "file").exists()


def test_what_must_happen_first_happens_for_folders_that_were_left_too(tmp_path: Path) -> None:
    (tmp_path / "held-left").mkdir()
    released: list[str] = []

    def release(folder: Path) -> None:
        assert folder.exists()
        released.append(folder.name)

    held = HeldFolder("held-", tmp_path, release)
    assert released == ["held-left"]
    held.delete()
    held.delete()
    assert released == ["held-left", held.path.name]


def test_a_folder_that_cannot_be_released_hinders_nobody(tmp_path: Path) -> None:
    (tmp_path / "held-left").mkdir()

    def refuse(folder: Path) -> None:
        raise CostModelError(f"{folder.name} is stuck")

    held = HeldFolder("held-", tmp_path, refuse)
    with pytest.raises(CostModelError, match="is stuck"):
        held.delete()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("first\nld: no space left\n\nCommand line: g++ -o a.so\n", "ld: no space left"),
        ("Traceback\n  error: too many registers  ", "error: too many registers"),
        ("", "RuntimeError"),
        ("x" * 400, "x" * 300),
    ],
)
def test_the_last_line_says_what_went_wrong(message: str, said: str) -> None:
    assert last_line(RuntimeError(message)) == said
