"""Rows of a table of another program, by a map of its columns, checked before they are believed."""

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec

from costmodel.dataset.sources._entry import (
    PER_SECOND,
    EntryError,
    to_decision,
    to_factors,
    to_seconds,
    to_utc,
)
from costmodel.errors import CostModelError
from costmodel.reading import read_toml
from costmodel.records._candidate import Candidate, Config, Decision
from costmodel.records._device_table import find_device
from costmodel.records._identity import content_id
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._platform import Device, Isolation, Platform
from costmodel.records._workload import Workload

_EXAMPLE = (
    'It needs at least `workload = "suite.kernel-x4096"`, a table [parameters] with lines such as '
    '`block = "block_size_x"`, and a table [latency] with `columns = ["run_1", "run_2"]` and `unit = "ms"` '
    '(or s, us, ns). For a device, number of SMs or outcome in a column, write `sms = { column = "sms" }`'
)


class TableColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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
        type: ``number``, ``text``, or ``to_factors`` of a tiled loop.
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

    workload: str | TableColumn
    parameters: dict[str, str | ParameterColumn]
    latency: LatencyColumns
    outcome: TableColumn | None = None
    device: str | TableColumn | None = None
    sms: int | TableColumn | None = None
    isolation: str | TableColumn = "whole"
    software: dict[str, str] = {}
    measured_at: TableColumn | None = None
    visit: int | TableColumn = 0
    error: TableColumn | None = None
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
        named = [field.column for field in single if isinstance(field, TableColumn)]
        named += [parameter.column for parameter in self.typed_parameters.values()]
        return tuple(dict.fromkeys([*named, *self.dims.values(), *self.latency.columns]))

    @property
    def of_candidate(self) -> tuple[str, ...]:
        """Columns that say what was measured, each once: those of the workload, its sizes and parameters."""
        named = [self.workload.column] if isinstance(self.workload, TableColumn) else []
        parameters = (parameter.column for parameter in self.typed_parameters.values())
        return tuple(dict.fromkeys([*named, *self.dims.values(), *parameters]))


def read_column_map(path: Path) -> ColumnMap:
    """Read a column map.

    Raises:
        CostModelError: The file cannot be read, or is none.
    """
    return read_toml(path, ColumnMap, "a map of the columns of a table", remedy=f"{_EXAMPLE}.")


Row = Mapping[str, Any]
_MOST_SMS = 2**31
_MOST_SIZE = 2**62
_MOST_KNOWN = 4096  # texts whose value is kept
_MOST_NAMED = 8  # wrong texts of a field that messages name: each makes a finding of its own


class RowReader:
    """Reads the rows of one table.

    Args:
        columns: Which column is what.
        platform: Where the rows were measured, if the columns do not say the device.
        source: The file, for the platform's software.
    """

    def __init__(self, columns: ColumnMap, platform: Platform | None, source: str) -> None:
        self.columns = columns
        self._platform = platform
        self._software = {**(platform.software if platform else columns.software), "table": source}
        self.parameters = columns.typed_parameters
        self._decisions: dict[tuple[str, str], Decision] = {}
        self._wrong: dict[str, set[str]] = {}
        self._space = f"table-{content_id(sorted(self.parameters))[:6]}"

    def measurement(self, row: Row) -> Measurement:
        """Return the measurement of a row: cells by the name of their column, texts or values of Arrow.

        Raises:
            EntryError: A cell is not what its column must hold.
        """
        outcome = self.outcome(row)
        latencies_s = self._latencies_s(row) if outcome is Outcome.OK else ()
        return Measurement(
            candidate=self.candidate(row),
            platform=self.platform(row),
            outcome=outcome,
            latencies_s=latencies_s,
            runs_per_repeat=self.columns.latency.runs_per_repeat if latencies_s else 0,
            visit=self.visit(row),
            measured_at=self.measured_at(row),
            error="" if latencies_s else self.error(row),
        )

    def candidate(self, row: Row) -> Candidate:
        """Return what was measured, from the cells of its workload and parameters."""
        config = Config({name: self._decision(name, row[by.column]) for name, by in self.parameters.items()})
        return Candidate(_workload(self._workload_name(row)), self._space, config)

    def _workload_name(self, row: Row) -> str:
        """Return the name that a row says, with the sizes that columns say behind it."""
        sizes = (
            f"-{letter}{_integer(row[name], _MOST_SIZE, f'dims (column {name})')}"
            for letter, name in self.columns.dims.items()
        )
        return "".join([str(_cell(row, self.columns.workload, "")), *sizes])

    def _decision(self, name: str, cell: Any) -> Decision:
        """Return the value of a parameter; texts, which repeat, are read once."""
        if not isinstance(cell, str):
            return _parameter(name, cell, self.parameters[name])
        if (name, cell) not in self._decisions:
            if len(self._decisions) >= _MOST_KNOWN:
                self._decisions.clear()
            self._decisions[name, cell] = _parameter(name, cell, self.parameters[name])
        return self._decisions[name, cell]

    def outcome(self, row: Row) -> Outcome:
        """Return how it ended."""
        text = _cell(row, self.columns.outcome, "ok")
        try:
            return Outcome(text)
        except ValueError:
            message = f"outcome must be one of {', '.join(Outcome)}, or be mapped to one"
            raise EntryError(message + self._but_is("outcome", text)) from None

    def visit(self, row: Row) -> int:
        """0 or 1."""
        return _integer(_cell(row, self.columns.visit, 0), 1, "visit")

    def measured_at(self, row: Row) -> str:
        """When, in UTC; empty if unknown."""
        when = _cell(row, self.columns.measured_at, "")
        return to_utc("" if _is_empty(when) else when)

    def ending(self, row: Row) -> tuple[Outcome, str]:
        """Return how it ended, and the message that it has if it failed."""
        return self.outcome(row), self.error(row)

    def error(self, row: Row) -> str:
        """Message of a failure."""
        message: str = _cell(row, self.columns.error, "") or self.outcome(row).value
        return message

    def _latencies_s(self, row: Row) -> tuple[float, ...]:
        latency = self.columns.latency
        cells = [(name, row[name]) for name in latency.columns]
        if latency.separator:
            cells = [(name, part) for name, cell in cells for part in _split(cell, latency.separator)]
        numbers = [_number(cell, f"latencies (column {name})") for name, cell in cells if not _is_empty(cell)]
        if not numbers:
            raise EntryError("a row without a latency must have an outcome other than ok")
        per_second = PER_SECOND[latency.unit]
        return tuple(to_seconds(number, per_second, "latencies") for number in numbers)

    def platform(self, row: Row) -> Platform:
        """Where, from the cells of device, isolation and SMs."""
        columns = self.columns
        if self._platform:
            return msgspec.structs.replace(self._platform, software=self._software)
        name = _cell(row, columns.device, "")
        device = _device(name)
        if device is None:
            message = "device must be listed by `costmodel devices list`, or be mapped to a listed one"
            raise EntryError(message + self._but_is("device", name))
        isolation = _cell(row, columns.isolation, "")
        if isolation not in get_args(Isolation):
            raise EntryError(f"isolation must be one of {', '.join(get_args(Isolation))}")
        said = _cell(row, columns.sms, "")
        sms = device.sms if said == "" and isolation == "whole" else _integer(said, _MOST_SMS, "sms")
        if isolation == "whole" and sms != device.sms:
            raise EntryError("sms must be all SMs of the device if isolation is whole")
        return Platform(device, isolation, sms, sms, self._software)

    def _but_is(self, field: str, cell: Any) -> str:
        """Return what a message adds on a wrong cell: its text, unless it is long or others were named."""
        text, named = str(cell), self._wrong.setdefault(field, set())
        if len(text) <= 60 and len(named) < _MOST_NAMED:
            named.add(text)
        return f", but is {text!r}" if text in named else ""


def _cell(row: Row, field: str | int | TableColumn | None, default: str | int) -> Any:
    """Return a constant, or what stands in a column and is meant by it."""
    if not isinstance(field, TableColumn):
        return default if field is None else field
    cell = row[field.column]
    if cell is None:
        return ""
    if isinstance(cell, int) and not isinstance(cell, bool) and not field.values:
        return cell
    return field.values.get(_text(cell), _text(cell))


def _text(cell: Any) -> str:
    text = str(cell)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise EntryError("text must be UTF-8") from None
    return text


def _is_empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _split(cell: Any, separator: str) -> list[Any]:
    """Return the values of a cell; Arrow may have them as a list."""
    return cell if isinstance(cell, list) else [] if cell is None else _text(cell).split(separator)


def _number(cell: Any, what: str) -> int | float:
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return cell
    if isinstance(cell, str) and "_" not in cell:  # Python reads 16_16 as 1616
        for kind in (int, float):
            try:
                return kind(cell)
            except ValueError:
                continue
    raise EntryError(f"{what} must be numbers")


def _integer(cell: Any, most: int, what: str) -> int:
    number = _number(cell, what)
    if not 0 <= number <= most or number != int(number):
        raise EntryError(f"{what} must be an integer from 0 to {most:,}")
    return int(number)


def _parameter(name: str, cell: Any, column: ParameterColumn) -> Decision:
    if _is_empty(cell):
        raise EntryError(f"each parameter must have a value, but column {column.column} has none")
    if column.type == "text":
        return _text(cell)
    if column.type == "factors":
        parts = _split(cell, column.separator)
        return to_factors([_number(part, f"factors (column {column.column})") for part in parts])
    try:
        return to_decision(_number(cell, f"values of column {column.column}"))
    except EntryError as error:
        raise EntryError(
            f"{error}; if they are texts, write `{name} = {{ column = {json.dumps(column.column)}, type = "
            '"text" }` under [parameters]'
        ) from None


@lru_cache(maxsize=1024)
def _workload(name: str) -> Workload:
    try:
        return Workload.parse(name)
    except CostModelError:
        raise EntryError("workload must have the form suite.kernel-x4096 or matmul-m128-n768-k3072") from None


@lru_cache(maxsize=1024)
def _device(name: Any) -> Device | None:
    """Return the device of that name; None if it is not known."""
    try:
        return find_device(str(name))
    except CostModelError:
        return None
