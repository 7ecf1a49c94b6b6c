"""Files that are written completely or not at all, and names that survive a power failure."""

import errno
import io
import os
import shlex
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from costmodel.arguments import check_path
from costmodel.errors import CostModelError
from costmodel.liveness import HeldFolder
from costmodel.reading import exists, is_file, is_folder

# What a picture's name may end in.
PICTURE_ENDINGS = (".png", ".pdf", ".svg")
# The package of a distribution that holds nothing but datasets.
LARGER_DATASETS = "costmodel_data"
# What the name of a folder has in which a file is half written.
PARTIAL = ".partial~"


def write_whole(path: Path, content: bytes, *, is_lasting: bool = True) -> None:
    """Write a file atomically, and create its folder. A killed process leaves the old file, or none.

    If several processes write at once, the content of the last one remains, complete.

    Args:
        path: The file.
        content: What it holds.
        is_lasting: Whether the disk has it on return. What can be made again need not wait for that, and may
            be empty or missing once the machine lost its power.

    Raises:
        CostModelError: If it cannot be written.
    """
    try:
        with replacing(path, is_lasting=is_lasting) as partial:
            partial.write_bytes(content)
    except OSError as error:
        raise CostModelError(f"Cannot write {path}: {error.strerror}.") from error


def cache_folder(name: str) -> Path:
    """Return a folder of this user for what can be made again: ``~/.cache/costmodel/<name>``.

    ``$XDG_CACHE_HOME`` replaces ``~/.cache``.
    """
    return expand_home(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "costmodel" / name


def expand_home(path: Path | str) -> Path:
    """Return a path with the home folder of a user in place of ``~``.

    Raises:
        CostModelError: Nothing tells this folder, as in a container whose user has no name.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise CostModelError(f"A home folder must be known for {path}, but is not: set HOME.") from None


def is_stream(path: Path) -> bool:
    """Tell whether what is written goes into what is there: a device, a pipe, or this process's output.

    A file that took its place would leave the whole machine without ``/dev/null``.
    """
    opened = str(path).startswith(("/dev/fd/", "/dev/std", "/proc/"))  # which may stand for a file
    return exists(path) and not is_folder(path) and (opened or not is_file(path))


def behind_link(path: Path) -> Path:
    """Return the file that a link leads to, so that all its names mean one; any other path as it is."""
    if not os.path.islink(path):  # noqa: PTH114 (it raises nothing where nobody may look)
        return path
    target = Path(os.path.realpath(path))
    return target if is_file(target) or not exists(target) else path


@contextmanager
def replacing(path: Path, *, is_lasting: bool = True) -> Iterator[Path]:
    """Give a file to write, which takes the place of ``path`` once the disk has all of it.

    It lies in a hidden folder beside ``path``, whose own folder is made. Where the block raises, or writes no
    file, nothing changes. What a killed process left half written goes when the file is written again. Into a
    stream it is copied; of a link, what it leads to is written. ``is_lasting`` is that of ``write_whole``.

    Raises:
        OSError: It cannot be written.
    """
    if is_stream(path):
        with tempfile.TemporaryDirectory() as folder:
            partial = Path(folder, "partial")
            yield partial
            if exists(partial):
                with partial.open("rb") as written, path.open("ab", buffering=0) as stream:
                    shutil.copyfileobj(written, stream)
        return
    path = behind_link(path)
    make_folder(path.parent)
    # No name of a host has a tilde, so that none begins like another.
    held = HeldFolder(f".{path.name}{PARTIAL}{socket.gethostname()}~", path.parent)
    partial = held.path / "partial"
    try:
        yield partial
        if exists(partial):
            if is_lasting:
                sync(partial)
            partial.replace(path)
            if is_lasting:
                sync(path.parent)
    finally:
        held.delete()


def find_shipped(folder: str, name: str) -> Path | None:
    """Return a shipped ``datasets/<name>`` or ``configs/<name>``; None if it does not exist.

    It is inside an installed package, in that of the distribution of larger datasets, or at the top of a
    source checkout.
    """
    package = Path(__file__).parent
    places = [package / f"_{folder}" / name, package.parent / folder / name]
    if larger := find_spec(LARGER_DATASETS):
        places += [Path(place) / name for place in larger.submodule_search_locations or ()]
    return next((place for place in places if exists(place)), None)


def find_config(path: Path) -> Path:
    """Return a settings file: the path as it is, or the shipped file of this name in ``configs/``.

    Example:
        >>> find_config(Path("cpu-quick")).name
        'cpu-quick.toml'
    """
    if exists(path):
        return path
    relative = path.relative_to("configs") if path.parts[:1] == ("configs",) else path
    return find_shipped("configs", str(relative.with_suffix(".toml"))) or path


def make_folder(path: Path) -> None:
    """Make a folder and those above it; they are on disk when this returns."""
    missing = [folder for folder in (path, *path.parents) if not exists(folder)]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        sync(folder.parent)


def sync(path: Path) -> None:
    """Wait until the disk has a file's content, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, obj: Any) -> None:
    """Write an object as JSON, whole.

    Dataclasses, msgspec structs, paths, numpy arrays and numpy numbers are understood; a number that is not
    finite becomes null.

    Raises:
        CostModelError: The file cannot be written.
    """
    data = msgspec.json.format(msgspec.json.encode(obj, enc_hook=_to_builtin), indent=2)
    write_whole(path, data + b"\n")


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays as an ``.npz`` file, whole; the same arrays give the same bytes.

    Raises:
        CostModelError: It cannot be written.
    """
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    write_whole(path, buffer.getvalue())


def check_not_open_to_all(path: Path) -> None:
    """Check that not every user of this machine may write to a file whose content decides what runs here.

    Raises:
        CostModelError: If they may.
    """
    if exists(path) and path.stat().st_mode & stat.S_IWOTH:
        raise CostModelError(
            f"{path} decides what this process runs, so it must not be writable for every user, but it is: "
            f"read it, and then run `chmod o-w {shlex.quote(str(path))}`."
        )


def check_picture(path: Path) -> None:
    """Check that a picture's name ends in one of ``PICTURE_ENDINGS``.

    Raises:
        CostModelError: If it does not.
    """
    if path.suffix.lower() not in PICTURE_ENDINGS:
        endings = " or ".join(PICTURE_ENDINGS)
        raise CostModelError(f"A picture must be a file that ends in {endings}, but got {path}.")


def check_writable(path: Path, *, folder: bool = False) -> None:
    """Check, before long work, that its result can be written to a file or a folder of files.

    Nothing is left behind: the nearest existing folder must accept an unnamed file.

    Args:
        path: Destination of the result.
        folder: Whether the destination is a folder of files.

    Raises:
        CostModelError: If something else is there, or its folder cannot be written to.
    """
    check_path("what is written", path)
    if is_folder(path) != folder and exists(path):
        there, needed = ("a file", "a folder") if folder else ("a folder", "a file")
        raise CostModelError(f"{path} must be {needed} to write, but {there} is there: name another.")
    if is_stream(path):
        if not os.access(path, os.W_OK):
            raise CostModelError(f"Cannot write {path}: {os.strerror(errno.EACCES)}. Name another place.")
        return
    above = next(parent for parent in (path, *path.absolute().parents) if exists(parent))
    if is_file(above) and above != path:
        raise CostModelError(f"Cannot write {path}: {above} is a file, not a folder. Name another place.")
    try:
        tempfile.TemporaryFile(dir=above if is_folder(above) else above.parent).close()
    except OSError as error:
        raise CostModelError(f"Cannot write {path}: {error.strerror}. Name another place.") from error


def _to_builtin(obj: Any) -> Any:
    if isinstance(obj, np.ndarray | np.generic):
        return obj.tolist()
    if isinstance(obj, Path | str):  # a text of a class of its own, as TVM's
        return str(obj)
    raise NotImplementedError(f"JSON has no form for {type(obj)}")
