"""Items that can be logged. Generators next to a result yield them, independent of any tracker."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from costmodel.printable import mask_secrets

if TYPE_CHECKING:
    import pandas as pd

ColumnType = Literal["string", "long", "double", "boolean"]


@dataclass(frozen=True)
class Parameter:
    """A setting that was chosen before the run; logged once.

    Attributes:
        name: Name of the setting, equal to that of the option that sets it.
        value: Its value, converted to text if needed.
    """

    name: str
    value: object


@dataclass(frozen=True)
class Metric:
    """A number that a run found. A number that is not finite is left out.

    Attributes:
        name: Name. The part before a slash groups metrics.
        value: The number.
        step: Position on a curve, such as a trial's number or an SM budget.
    """

    name: str
    value: float
    step: int = 0


@dataclass(frozen=True)
class Tag:
    """A fact about a run that was neither chosen nor found, such as its commit.

    Attributes:
        name: Name of the fact.
        value: Value of the fact.
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
        path: Path among the run's files, such as ``plots/by_budget.png``.
        write: Called with the path to write the file to.
    """

    path: str
    write: Callable[[Path], object]

    @classmethod
    def copy_of(cls, path: str, file: Path) -> "Artifact":
        """Make an artifact of an existing file."""
        return cls(path, lambda target: target.write_bytes(file.read_bytes()))

    @classmethod
    def of_text(cls, path: str, text: str) -> "Artifact":
        """Make an artifact of text. Secrets in it are masked."""
        return cls(path, lambda target: target.write_text(mask_secrets(text), encoding="utf-8"))


@dataclass(frozen=True)
class Table:
    """A table of a run, stored as CSV. A table without rows is left out.

    Attributes:
        path: Path among the run's files, such as ``tables/tasks.csv``.
        frame: The rows.
    """

    path: str
    frame: "pd.DataFrame"


@dataclass(frozen=True)
class DatasetUsed:
    """A dataset that a run read.

    Attributes:
        name: Name of the dataset.
        sha256: Hash of its content, 64 hexadecimal digits.
        source: Where it was read from; None if it was made in memory.
        schema: Type of each column: its name, or an MLflow specification of nested types.
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
    """A trained model that can be loaded by its signature alone.

    Attributes:
        file: Path of the model.
        loader: Module with ``_load_pyfunc(path)``, which returns an object with ``predict(frame)``.
        inputs: Type of each column of the frame.
        outputs: Type of each column of the predictions.
        example: Example rows.
        requirements: Packages needed to load it, in pip's format.
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
    """A run below this one, such as one of several learners that are compared.

    Attributes:
        name: Name of the run.
        items: Items to log.
    """

    name: str
    items: "Iterable[Item]"


Value: TypeAlias = Parameter | Metric | Tag | Note
Item: TypeAlias = Value | Artifact | Table | DatasetUsed | ModelFile | ChildRun


def tell_answer(name: str, value: float, headline: str = "") -> Iterator[Item]:
    """Log the number that says most of a run, as ``answer/NAME``, which sorts before what else is logged.

    MLflow's view of runs side by side opens on the first metric by name, and its charts on the first group.

    Args:
        name: Name of the number, which runs that may be compared share.
        value: The number.
        headline: Name of the metric that lists of runs show; ``name`` if empty.
    """
    yield Metric(f"answer/{name}", value)
    yield Tag("headline", headline or name)
