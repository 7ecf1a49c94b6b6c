"""Interface of a file format: how a file is recognised, and how it is read."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

from costmodel.dataset.importers._document import Document
from costmodel.dataset.importers._source import Source
from costmodel.reading import open_unpacked, refusing
from costmodel.records._workload import Workload

LowerTraces = Literal["needed", "all", "none"]
LOWER_TRACES: tuple[LowerTraces, ...] = get_args(LowerTraces)

_HEAD_BYTES = 64 * 2**10
_FIRST_KEY = re.compile(rb'\s*\{\s*"(\w+)"')
_LIST = re.compile(rb"\s*\[\s*\{")
_KEY_OF_LINES = "crc32"  # which a line of a record store begins with


@dataclass(frozen=True)
class ReadOptions:
    """Information that files of other programs do not contain.

    Attributes:
        platform: TOML file that describes the platform of the measurements. A file next to the measurements
            with the same name and the suffix ``.platform.toml`` overrides it for that file.
        columns: TOML file that maps the columns of a table.
        workloads: Workloads measured, for formats that do not name them.
        problem_size: Problem size, x first, for Kernel Tuner caches that do not contain it.
        lower_traces: Traces of a MetaSchedule database that TVM, if installed, lowers to find what their
            kernels launch. ``needed``: those of foreign kernels and of a CPU, whose features are not known
            otherwise. ``all``: every trace. ``none``: no trace.
    """

    platform: Path | None = None
    columns: Path | None = None
    workloads: tuple[Workload, ...] = ()
    problem_size: tuple[int, ...] = ()
    lower_traces: LowerTraces = "needed"


@dataclass(frozen=True)
class InputFile:
    """A file, and as much of its content as it takes to tell its format.

    Attributes:
        path: Where it is.
        head: Its first bytes, unpacked.
        packed: Whether it is gzipped.
    """

    path: Path
    head: bytes
    packed: bool

    @classmethod
    def open(cls, path: Path) -> "InputFile":
        """Read the first bytes.

        Raises:
            CostModelError: The file cannot be read.
        """
        with refusing(path, "a file of measurements"), open_unpacked(path) as (file, packed):
            return cls(path, file.read(_HEAD_BYTES), packed)

    @property
    def first_key(self) -> str:
        """The first key of the JSON object that it begins with; empty where it begins otherwise."""
        found = _FIRST_KEY.match(self.head)
        return found[1].decode() if found else ""

    @property
    def is_list(self) -> bool:
        """Whether it begins as a JSON list of objects, which no format is."""
        return bool(_LIST.match(self.head))

    @property
    def is_document(self) -> bool:
        """Whether it begins as one JSON object, and not as lines of them."""
        return self.first_key not in ("", _KEY_OF_LINES)

    @cached_property
    def document(self) -> Document:
        """The JSON object that it is."""
        return Document.open(self.path)


@dataclass(frozen=True)
class Format:
    """A format of files.

    Attributes:
        name: What its files are called in messages.
        recognises: Whether a file is of this format, as far as its content and the options tell.
        read: What a file of it holds; raises a ``CostModelError`` where it is damaged or needs an option that
            is not given.
    """

    name: str
    recognises: Callable[[InputFile, ReadOptions], bool]
    read: Callable[[InputFile, ReadOptions], Source]
