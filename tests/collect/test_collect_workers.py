from pathlib import Path

import pytest

from costmodel.collect._build import last_line
from costmodel.collect._kernel_folder import KernelFolder


def test_the_next_folder_deletes_those_that_nobody_holds(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "costmodel-kernels-left").mkdir()
    (tmp_path / "costmodel-kernels-left" / "a.so").touch()
    first, second = KernelFolder(), KernelFolder()
    assert sorted(tmp_path.iterdir()) == sorted([first.path, second.path])
    first.delete()
    first.delete()
    assert list(tmp_path.iterdir()) == [second.path]
    second.delete()
    assert not list(tmp_path.iterdir())


def test_a_link_to_elsewhere_is_not_followed(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    (tmp_path / "costmodel-kernels-link").symlink_to(precious)
    KernelFolder().delete()
    assert (precious / "file").exists()


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
