import errno
import json
import os
import stat
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel.errors import CostModelError
from costmodel.files import (
    LARGER_DATASETS,
    cache_folder,
    check_writable,
    find_config,
    find_shipped,
    replacing,
    write_json,
    write_whole,
)
from costmodel.liveness import user_name


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


@pytest.fixture
def nameless(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A user as containers have them: a number without an entry among the users of the system."""
    for name in ("HOME", "LOGNAME", "USER", "LNAME", "USERNAME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 5)
    return monkeypatch


def test_a_user_without_a_name_is_called_by_the_number(nameless: pytest.MonkeyPatch) -> None:
    assert user_name() == str(2**31 - 5)
    nameless.setenv("USER", "ada")
    assert user_name() == "ada"


def test_a_user_without_a_home_folder_is_told_to_name_one(nameless: pytest.MonkeyPatch) -> None:
    with pytest.raises(CostModelError, match="set HOME"):
        cache_folder("triton.jsonl")
    nameless.setenv("HOME", "/somewhere")
    assert cache_folder("triton.jsonl") == Path("/somewhere/.cache/costmodel/triton.jsonl")


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


def test_a_place_is_checked_and_nothing_is_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    check_writable(tmp_path / "new" / "a.json")
    check_writable(tmp_path / "file")
    check_writable(tmp_path, folder=True)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, folder, told in (
        (tmp_path, False, "must be a file to write, but a folder is there"),
        (tmp_path / "file", True, "must be a folder to write, but a file is there"),
        (tmp_path / "file" / "deep" / "a.json", False, "Cannot write .*: .*file is a file, not a folder"),
        (Path("/proc/a.json"), False, "Cannot write /proc/a.json: "),
    ):
        with pytest.raises(CostModelError, match=told):
            check_writable(path, folder=folder)


@dataclass
class Result:
    path: Path
    values: object


def test_numbers_of_every_kind(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "a.json"
    values = [
        np.float64("nan"),
        np.float32(1.5),
        np.int64(3),
        float("inf"),
        np.array([1.0, -np.inf]),
        (1, "a"),
    ]
    write_json(file, Result(Path("x"), values))
    assert json.loads(file.read_text()) == {
        "path": "x",
        "values": [None, 1.5, 3, None, [1.0, None], [1, "a"]],
    }
    assert [entry.name for entry in file.parent.iterdir()] == ["a.json"]


def test_a_text_of_another_class_is_a_text(tmp_path: Path) -> None:
    class Name(str):
        __slots__ = ()

    write_json(tmp_path / "a.json", {Name("of"): [Name("softmax")]})
    assert json.loads((tmp_path / "a.json").read_text()) == {"of": ["softmax"]}


def test_an_object_without_json_form_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(NotImplementedError, match="JSON has no form"):
        write_json(tmp_path / "a.json", object())
    assert not list(tmp_path.iterdir())


def test_json_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CostModelError, match="Cannot write"):
        write_json(tmp_path / "file" / "a.json", 1)


def test_settings_that_ship_are_found_by_name_where_nothing_lies_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place = Path(__file__).parents[1] / "configs"
    for name in ("cpu-quick", "cpu-quick.toml", "configs/cpu-quick.toml"):
        assert find_config(Path(name)) == place / "cpu-quick.toml"
    assert find_config(Path("configs/cards/sm-budgets.toml")) == place / "cards" / "sm-budgets.toml"
    assert find_config(Path("nowhere")) == Path("nowhere")
    Path("cpu-quick").touch()
    assert find_config(Path("cpu-quick")) == Path("cpu-quick")


def wheel_of(project: Path) -> dict[str, Any]:
    """What the project's file says of its wheel."""
    build = tomllib.loads((project / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    found: dict[str, Any] = build["targets"]["wheel"]
    return found


def test_each_dataset_is_in_one_of_two_wheels_and_found_there() -> None:
    root = Path(__file__).parents[1]
    package, larger = wheel_of(root), wheel_of(root / "datasets")["force-include"]
    assert package["sources"] == {"configs": "costmodel/_configs", "datasets": "costmodel/_datasets"}
    assert all(larger[name] == f"{LARGER_DATASETS}/{name}" for name in larger)
    shipped = [
        path.removeprefix("datasets/") for path in package["only-include"] if path.startswith("datasets/")
    ]
    in_wheels = sorted([*shipped, *larger])
    folders = {folder.parent.name for folder in (root / "datasets").glob("*/README.md")}
    # Traces are for experiments and pages of the documentation; nothing loads them by name.
    assert in_wheels == sorted(folders - {"traces"})


def test_both_distributions_have_one_version() -> None:
    root = Path(__file__).parents[1]
    versions = [
        tomllib.loads((place / "pyproject.toml").read_text())["project"]["version"]
        for place in (root, root / "datasets")
    ]
    assert versions[0] == versions[1]


def test_a_dataset_of_the_larger_distribution_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_shipped("datasets", "largest") is None
    (tmp_path / LARGER_DATASETS / "largest").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)
    assert find_shipped("datasets", "largest") == tmp_path / LARGER_DATASETS / "largest"


def test_what_a_killed_writer_left_goes_with_the_next_write(tmp_path: Path) -> None:
    path = tmp_path / "[1].json"
    code = (
        "import os, sys; from pathlib import Path; from costmodel.files import replacing\n"
        "with replacing(Path(sys.argv[1])) as partial:\n"
        "    partial.write_text('half'); os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, path], check=False)
    (left,) = tmp_path.iterdir()
    assert left.is_dir()
    with replacing(path) as other:  # a writer at work is left alone
        other.write_text("other")
        write_whole(path, b"whole")
        assert set(tmp_path.iterdir()) == {path, other.parent}
    assert path.read_text() == "other"
    assert list(tmp_path.iterdir()) == [path]


def test_what_another_host_writes_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its locks cannot be seen here; and the name of this host begins like that of the other."""
    path = tmp_path / "a.json"
    with monkeypatch.context() as there:
        there.setattr("socket.gethostname", lambda: "node-1")
        there.setattr("fcntl.flock", lambda *_: None)
        theirs = replacing(path)
        partial = theirs.__enter__()
        partial.write_text("theirs")
    monkeypatch.setattr("socket.gethostname", lambda: "node")
    write_whole(path, b"ours")
    theirs.__exit__(None, None, None)
    assert path.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [path]


def test_of_a_link_what_it_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "link").symlink_to("deep/file")
    for content in (b"made", b"written anew"):
        write_whole(tmp_path / "link", content)
        assert (tmp_path / "deep" / "file").read_bytes() == content
    assert (tmp_path / "link").is_symlink()
    assert {each.name for each in tmp_path.iterdir()} == {"deep", "link"}


def test_what_is_written_goes_into_a_device_or_a_pipe_and_not_in_its_place(tmp_path):
    """A terminal stands for every device: only root could lose another, such as /dev/null."""
    screen, terminal = os.openpty()
    device = Path(os.ttyname(terminal))
    check_writable(device)
    write_whole(device, b"seen")
    assert os.read(screen, 10) == b"seen"
    assert stat.S_ISCHR(device.stat().st_mode)
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        write_whole(tmp_path / name, b"read")
        assert os.read(reader, 10) == b"read"
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert (tmp_path / "link").is_symlink()
