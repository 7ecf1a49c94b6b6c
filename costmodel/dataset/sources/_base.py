"""A file that is to be read, and the options with which it is."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

from costmodel.dataset.sources._document import Document
from costmodel.dataset.sources._source import FileContents
from costmodel.formats import HEAD_BYTES, FileFormat, detect_format
from costmodel.reading import open_unpacked, refusing
from costmodel.records._workload import Workload

LowerTraces = Literal["needed", "all", "none"]
LOWER_TRACES: tuple[LowerTraces, ...] = get_args(LowerTraces)


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
    """A file, and what it looks like.

    Attributes:
        path: Where it is.
        head: Its first bytes, unpacked.
    """

    path: Path
    head: bytes

    @classmethod
    def open(cls, path: Path) -> "InputFile":
        """Read the first bytes.

        Raises:
            CostModelError: The file cannot be read.
        """
        with (
            refusing(path, "a file of measurements", "Copy the file again."),
            open_unpacked(path) as (file, _),
        ):
            return cls(path, file.read(HEAD_BYTES))

    @cached_property
    def look(self) -> FileFormat | None:
        """The format that it looks to be of; None if that is unknown."""
        return detect_format(self.head)

    @property
    def is_json(self) -> bool:
        """Whether it begins as JSON does."""
        return self.head.lstrip()[:1] in (b"{", b"[")

    @cached_property
    def document(self) -> Document:
        """The JSON object that it is.

        Raises:
            CostModelError: It is damaged.
        """
        return Document.open(self.path, self.look.name if self.look else "one JSON object")


# Reads what a file of one format holds; raises a ``CostModelError`` where it is damaged, or needs an option
# that is not given.
Reader = Callable[[InputFile, ReadOptions], FileContents]
