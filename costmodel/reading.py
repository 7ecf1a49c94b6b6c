"""The one way in for files: opened, bounded, decoded and checked here.

Whatever can go wrong with a file that nobody vouches for becomes one ``CostModelError``, which names the
file, the place in it, what it looks like instead, and what to do. Readers elsewhere call ``read_json``,
``read_toml``, ``read_text``, ``read_bytes``, ``read_lines`` or ``read_arrays``, and put decoders of
their own, of what ``costmodel.opening`` opens, into ``refusing``.
"""

import codecs
import os
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from costmodel.arguments import check_path
from costmodel.decoding import check_document, convert
from costmodel.errors import CostModelError, did_you_mean, letters_and_digits, shorten
from costmodel.formats import FileFormat, detect_format
from costmodel.opening import MOST_UNASKED, check_regular, lines_of, open_file, open_unpacked, read_head

T = TypeVar("T")

# Numbers of a file that become elements of an array: a whole one of 32 bits, and one that products and sums
# leave finite.
Whole32 = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Finite = Annotated[float, msgspec.Meta(ge=0.0, lt=1e18)]

MOST_SETTINGS = 16 * 2**20
MOST_BYTES = 2**30
MOST_TOTAL = 16 * 2**30
MOST_LINE = 64 * 2**20
_MOST_BESIDE = 1000  # names of a folder that are looked through for one like that of a missing file


def is_file(path: Path | str) -> bool:
    """Tell whether there is a file. Any value may be asked for: one that is no name of a file is none."""
    return isinstance(path, str | os.PathLike) and os.path.isfile(path)  # noqa: PTH113 (Path.is_file raises for names that are too long)


def say_near(missing: object) -> str:
    """Suggest files for one that is missing: a sentence behind a space, empty if none beside it is alike."""
    if not isinstance(missing, Path) or os.path.lexists(missing):  # a folder, or a link to nothing
        return ""
    if not is_folder(missing.parent):
        return f" There is no folder {shorten(missing.parent)}."
    with suppress(OSError), os.scandir(missing.parent) as entries:
        return did_you_mean(missing.name, sorted(each.name for each in islice(entries, _MOST_BESIDE)), _stem)
    return ""


def _stem(name: str) -> str:
    """What tells a file from others of its format."""
    return letters_and_digits(name.partition(".")[0])


def is_folder(path: Path | str) -> bool:
    """Tell whether there is a folder; see ``is_file``."""
    return isinstance(path, str | os.PathLike) and os.path.isdir(path)  # noqa: PTH112


def exists(path: Path | str) -> bool:
    """Tell whether there is anything of this name; see ``is_file``."""
    return isinstance(path, str | os.PathLike) and os.path.exists(path)  # noqa: PTH110


@contextmanager
def refusing(where: object, what: str, remedy: str = "", *, form: str = "") -> Iterator[None]:
    """Turn whatever reading raises in this block into an error that a user can act on.

    Put nothing but the decoding of untrusted content into it: a fault of the code there would pass for one of
    the file's. A ``CostModelError`` passes unchanged.

    Args:
        where: The file, or the file and a place in it, as in ``log.json, line 3``.
        what: What must be there, with an article, as in ``a job file``.
        remedy: What to do, as a sentence; a file that looks like something else gets that format's.
        form: Key of the format that such a file looks like, such as ``json``, if it is no more than that.

    Raises:
        CostModelError: The block raised.
    """
    try:
        yield
    except CostModelError:
        raise
    except OSError as error:
        reason = error.strerror or _reason(error)
        near = say_near(where) if isinstance(error, FileNotFoundError) else ""
        said = f"Cannot read {shorten(where)}: {reason}.{near} {remedy}"
        raise CostModelError(said.rstrip()) from error
    except Exception as error:  # decoders document few of the exceptions that damaged bytes make them raise
        looks = say_looks(where, what, form) if isinstance(where, Path) else ""
        said = f"{shorten(where)} must be {what}, but: {_reason(error)}. {looks or remedy}"
        raise CostModelError(said.rstrip()) from error


def check_place(path: Path | str, what: str) -> None:
    """Check that a file that another library opens, and may write beside, is a regular one or is not there.

    Args:
        path: The file.
        what: See ``refusing``.

    Raises:
        CostModelError: It is a folder, a device or a pipe, or no file can have this name.
    """
    with refusing(path, what), suppress(FileNotFoundError):
        check_regular(os.stat(path).st_mode)  # noqa: PTH116 (of a text too)


def detect(path: Path | str) -> FileFormat | None:
    """Find the format that a file looks to be of; see ``detect_format``.

    Raises:
        CostModelError: It cannot be read.
    """
    with refusing(path, "a file"):
        return detect_format(read_head(Path(path)))


def say_looks(path: Path, what: str, form: str = "") -> str:
    """Say what a file looks like, and what can be done with it.

    Args:
        path: The file.
        what: What it must be; see ``refusing``, as ``form``.
        form: Key of a format that is no more than what it must be.

    Returns:
        One or two sentences; none if it looks like what it must be, or like nothing that is known.
    """
    found = None
    with suppress(OSError, ValueError):  # it may be the file that cannot be read
        found = detect_format(read_head(path))
    if found is None or found.key == form or found.name in what:
        return ""
    return f"It looks like {found.name}. {found.use}".rstrip().replace("FILE", str(path))


def read_bytes(path: Path | str, what: str, *, remedy: str = "", most_bytes: int = MOST_BYTES) -> bytes:
    """Read a file, gzipped or not.

    Args:
        path: The file.
        what: See ``refusing``, as ``remedy``.
        remedy: What to do if it cannot be read.
        most_bytes: Refuse to read more, unpacked.

    Raises:
        CostModelError: It cannot be read, or is larger.
    """
    path = check_path(what, path)
    with refusing(path, what, remedy), open_unpacked(path) as (file, _):
        content = file.read(most_bytes + 1)
        if len(content) > most_bytes:
            raise ValueError(f"it must have at most {most_bytes:,} bytes, but has more")
        return content


def read_text(path: Path | str, what: str, *, remedy: str = "", most_bytes: int = MOST_SETTINGS) -> str:
    """Read a file of text in UTF-8; see ``read_bytes``.

    Raises:
        CostModelError: It cannot be read, is larger, or is no text.
    """
    content = read_bytes(path, what, remedy=remedy, most_bytes=most_bytes)
    with refusing(Path(path), what, remedy):
        return content.decode("utf-8-sig")


def read_json(  # noqa: PLR0913
    path: Path | str,
    kind: type[T] | Any,
    what: str,
    *,
    remedy: str = "",
    most_bytes: int = MOST_BYTES,
    strict: bool = True,
) -> T:
    """Read a value of a type from JSON; see ``read_bytes``.

    Args:
        path: The file.
        kind: Type of the value, such as a ``msgspec.Struct``.
        what: See ``refusing``, as ``remedy``.
        remedy: What to do if it cannot be read.
        most_bytes: Refuse to read more, unpacked.
        strict: Whether a number must not be written as a text.

    Raises:
        CostModelError: It cannot be read, or holds no such value.
    """
    content = read_bytes(path, what, remedy=remedy, most_bytes=most_bytes)
    with refusing(Path(path), what, remedy, form="json"):
        found: T = decode_json(content, kind, strict=strict)
        return found


def read_toml(path: Path | str, kind: type[T] | Any, what: str, *, remedy: str = "") -> T:
    """Read a value of a type from TOML; see ``read_json``.

    Raises:
        CostModelError: It cannot be read, or holds no such value.
    """
    content = read_bytes(path, what, remedy=remedy, most_bytes=MOST_SETTINGS)
    with refusing(Path(path), what, remedy, form="toml"):
        document = tomllib.loads(content.decode("utf-8-sig"))
        check_document(document)
        found: T = convert(document, kind)
        return found


def decode_json(content: bytes | str, kind: type[T] | Any, *, strict: bool = True) -> T:
    """Decode a value of a type from JSON. Use it in ``refusing``.

    Raises:
        ValueError: It is no such value; other exceptions are possible.
    """
    if isinstance(content, bytes):
        content = content.removeprefix(codecs.BOM_UTF8)
    found: T = msgspec.json.decode(content, type=kind, strict=strict)
    if kind is Any:
        check_document(found)
    return found


def read_arrays(path: Path | str, names: Iterable[str], what: str, *, remedy: str = "") -> dict[str, Any]:
    """Read arrays of NumPy from an ``.npz`` file, of which nothing can run.

    Args:
        path: The file.
        names: Of the arrays.
        what: See ``refusing``, as ``remedy``.
        remedy: What to do if it cannot be read.

    Raises:
        CostModelError: It cannot be read, lacks an array, or unpacks to more than it must.
    """
    import numpy as np

    path = check_path(what, path)
    with refusing(path, what, remedy), open_file(path) as file:
        with zipfile.ZipFile(file) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size > MOST_UNASKED:
            raise ValueError(f"it must unpack to at most {MOST_UNASKED:,} bytes, but has {size:,}")
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in names}


def read_lines(
    path: Path | str,
    what: str,
    *,
    remedy: str = "",
    most_line: int = MOST_LINE,
    most_bytes: int = MOST_TOTAL,
) -> Iterator[tuple[int, bytes]]:
    """Read the lines of a file that are not empty, one at a time, with their numbers from 1.

    Args:
        path: The file, gzipped or not.
        what: See ``refusing``, as ``remedy``.
        remedy: What to do if it cannot be read.
        most_line: Longest line, in bytes.
        most_bytes: Refuse to read more, unpacked.

    Raises:
        CostModelError: It cannot be read, or is too large to be that.
    """
    path = Path(path)
    numbered = enumerate(_lines_in(path, what, remedy, most_line, most_bytes), start=1)
    return ((number, line) for number, line in numbered if line.strip())


def _lines_in(path: Path, what: str, remedy: str, most_line: int, most_bytes: int) -> Iterator[bytes]:
    """The lines of a file; only what reading raises is told as the file's fault, not what the caller does."""
    with refusing(path, what, remedy), open_unpacked(path) as (file, _):
        lines = lines_of(file, most_bytes=most_line, most_total=most_bytes)
        while (line := next(lines, None)) is not None:
            yield line


def _reason(error: Exception) -> str:
    """What an exception of a decoder says, in one line of bounded length."""
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start + 1:,} is not UTF-8"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, MemoryError):
        return "it does not fit into memory"
    if isinstance(error, KeyError):
        return f"{error} is missing"
    said = (str(error).splitlines() or [""])[0].replace(". - at `", " - at `")
    if said.startswith("Exceeds the limit"):  # Python's words for int("1" * 5000)
        return "a whole number has thousands of digits"
    return shorten(said.rstrip("."), 300) or type(error).__name__
