"""What can be logged. Generators beside a result yield these, and know of no tracker."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    import pandas as pd

ColumnType = Literal["string", "long", "double", "boolean"]


@dataclass(frozen=True)
class Parameter:
    """A setting that was chosen before the run; logged once.

    Attributes:
        name: Its name, as of the option that sets it.
        value: What it was, as text where it is no text.
    """

    name: str
    value: object


@dataclass(frozen=True)
class Metric:
    """A number that a run found; one that is not finite is left out.

    Attributes:
        name: Its name; what stands before a slash groups it with others.
        value: The number.
        step: Where it belongs on a curve, such as a trial's number or an SM budget.
    """

    name: str
    value: float
    step: int = 0


@dataclass(frozen=True)
class Tag:
    """A fact about a run that is neither chosen nor found, such as its commit.

    Attributes:
        name: Its name.
        value: What is so.
    """

    name: str
    value: str


@dataclass(frozen=True)
class Note:
    """The description of a run.

    Attributes:
        text: Markdown.
    """

    text: str


@dataclass(frozen=True)
class Artifact:
    """A file of a run.

    Attributes:
        path: Its place among the run's files, such as ``plots/by_budget.png``.
        write: Writes it; called with the path to write to.
    """

    path: str
    write: Callable[[Path], object]

    @classmethod
    def copy_of(cls, path: str, file: Path) -> "Artifact":
        """A file that is there already."""
        return cls(path, lambda target: target.write_bytes(file.read_bytes()))

    @classmethod
    def of_text(cls, path: str, text: str) -> "Artifact":
        """A file of text."""
        return cls(path, lambda target: target.write_text(text, encoding="utf-8"))


@dataclass(frozen=True)
class Table:
    """A table of a run, kept as CSV; one without rows is left out.

    Attributes:
        path: Its place among the run's files, such as ``tables/tasks.csv``.
        frame: Its rows.
    """

    path: str
    frame: "pd.DataFrame"


@dataclass(frozen=True)
class DatasetUsed:
    """A dataset that a run read.

    Attributes:
        name: Its name.
        sha256: Hash of its content, 64 hexadecimal digits.
        source: Where it was read from; None if it was made in memory.
        schema: Type of each column: its name, or an MLflow specification of what is nested.
        profile: Counts.
        context: What it was used for, such as ``training``.
    """

    name: str
    sha256: str
    source: Path | None
    schema: Mapping[str, Any]
    profile: Mapping[str, int]
    context: str


@dataclass(frozen=True)
class ModelFile:
    """A trained model, as something that loads where nothing is known of it but its signature.

    Attributes:
        file: The model.
        loader: Module with ``_load_pyfunc(path)``, which gives an object with ``predict(frame)``.
        inputs: Type of each column of the frame.
        outputs: Type of each column of what it predicts.
        example: Rows that it takes.
        requirements: What must be installed to load it, as for pip.
        metadata: JSON values that describe it.
    """

    file: Path
    loader: str
    inputs: Mapping[str, ColumnType]
    outputs: Mapping[str, ColumnType]
    example: "pd.DataFrame"
    requirements: tuple[str, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ChildRun:
    """A run below this one, such as one learner of several that are compared.

    Attributes:
        name: Its name.
        items: What to log of it.
    """

    name: str
    items: "Iterable[Item]"


Value: TypeAlias = Parameter | Metric | Tag | Note
Item: TypeAlias = Value | Artifact | Table | DatasetUsed | ModelFile | ChildRun
