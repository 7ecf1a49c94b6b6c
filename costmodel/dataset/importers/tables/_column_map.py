"""Which column of a table is what: a TOML file that someone writes for a table of another program."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from costmodel.reading import read_toml

_EXAMPLE = (
    'It needs at least `workload = "suite.kernel-x4096"`, a table [parameters] with lines such as '
    '`block = "block_size_x"`, and a table [latency] with `columns = ["run_1", "run_2"]` and `unit = "ms"` '
    '(or s, us, ns). For a device, number of SMs or outcome in a column, write `sms = { column = "sms" }`'
)


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column that holds one thing a row.

    Attributes:
        column: Its name.
        values: What is meant by what stands there; what is not named means itself.
    """

    column: str
    values: dict[str, str] = {}


class ParameterColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of a parameter.

    Attributes:
        column: Its name.
        type: ``number``, ``text``, or ``factors`` of a tiled loop.
        separator: What stands between factors, outermost first.
    """

    column: str
    type: Literal["number", "text", "factors"] = "number"
    separator: Annotated[str, msgspec.Meta(min_length=1)] = "x"


class LatencyColumns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The columns of the repeats.

    Attributes:
        columns: Their names; an empty cell is a repeat that was not made.
        unit: Unit of the numbers.
        separator: What stands between the repeats of one cell; empty if a cell holds one.
        runs_per_repeat: Back-to-back runs that each number averages over.
    """

    columns: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    unit: Literal["s", "ms", "us", "ns"]
    separator: str = ""
    runs_per_repeat: Annotated[int, msgspec.Meta(ge=1)] = 1


class ColumnMap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file: a text or a number is a constant, a table with ``column`` is a column.

    Attributes:
        workload: Name of the workload.
        dims: By letter, the column of a size; sizes stand behind the name, as in ``suite.gemm-m64-n64``.
        parameters: By name, the column of a parameter; a bare text is a column of numbers.
        latency: The repeats.
        outcome: How it ended, by the values of ``Outcome``; ok everywhere if not given.
        device: Name that ``costmodel devices list`` shows; where it is not given, that and what follows is
            the platform's of the command line.
        sms: SMs granted; may be left out where isolation is whole.
        isolation: How they were set apart.
        software: Versions that can change a latency.
        measured_at: Time, ISO 8601.
        visit: 0 for a first measurement, 1 for a repeat of one.
        error: Message of a failure.
        delimiter: What stands between the cells of a CSV file.
    """

    workload: str | Column
    parameters: dict[str, str | ParameterColumn]
    latency: LatencyColumns
    outcome: Column | None = None
    device: str | Column | None = None
    sms: int | Column | None = None
    isolation: str | Column = "whole"
    software: dict[str, str] = {}
    measured_at: Column | None = None
    visit: int | Column = 0
    error: Column | None = None
    dims: dict[str, str] = {}
    delimiter: Annotated[str, msgspec.Meta(min_length=1, max_length=1)] = ","

    @property
    def typed_parameters(self) -> dict[str, ParameterColumn]:
        """The column of each parameter, with its type."""
        return {
            name: ParameterColumn(column) if isinstance(column, str) else column
            for name, column in self.parameters.items()
        }

    @property
    def names(self) -> tuple[str, ...]:
        """Columns that a table must have, each once."""
        where = (self.device, self.sms, self.isolation)
        single = (self.workload, *where, self.outcome, self.measured_at, self.visit, self.error)
        named = [field.column for field in single if isinstance(field, Column)]
        named += [parameter.column for parameter in self.typed_parameters.values()]
        return tuple(dict.fromkeys([*named, *self.dims.values(), *self.latency.columns]))


def read_column_map(path: Path) -> ColumnMap:
    """Read a column map.

    Raises:
        CostModelError: The file cannot be read, or is none.
    """
    return read_toml(path, ColumnMap, "a map of the columns of a table", remedy=f"{_EXAMPLE}.")
