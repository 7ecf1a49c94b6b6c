"""Tables of ``cutlass_profiler``, from ``--output`` or behind the report that it prints.

The header begins with ``Problem,Provider,OperationKind,Operation,Disposition,Status``; columns of ``--tags``
may precede it. The arguments of the operation follow, and ``Bytes,Flops,Flops/Byte,Runtime,GB/s,GFLOPs`` end
it, with the run time in milliseconds. Source: CUTLASS 3.9, ``tools/profiler/src/performance_report.cpp`` and
``performance_result.cu``. It does not name the device.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from costmodel.dataset.sources._base import (
    InputFile,
    PlatformFile,
    ReadOptions,
    find_platform_file,
    foreign_workload,
    name_space,
    require_platform,
)
from costmodel.dataset.sources._document import CsvRow, read_csv_rows
from costmodel.dataset.sources._entry import EntryError, read_decision, read_number, to_seconds
from costmodel.dataset.sources._source import Entry, FileContents, Origin
from costmodel.records._candidate import Candidate, Config
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._platform import Platform
from costmodel.records._workload import Workload

_FIRST = ("Problem", "Provider", "OperationKind", "Operation", "Disposition", "Status")
_SIZE = re.compile(r"[1-9]\d{0,14}", re.ASCII)
_AFTER_ARGUMENTS = "Bytes"
_TIME = "Runtime"
_OUTCOMES = {
    "passed": Outcome.OK,
    "not_verified": Outcome.OK,
    "incorrect": Outcome.WRONG_RESULT,
    "failed": Outcome.LAUNCH_ERROR,
    "not_run": Outcome.INVALID_CONFIG,
    "invalid_problem": Outcome.INVALID_CONFIG,
    "not_supported": Outcome.INVALID_CONFIG,
}
# Arguments that tell kernels of one problem apart. All others belong to the problem: a new one then splits
# tasks, and never mixes two.
_OF_KERNEL = frozenset(
    {
        *("split_k_mode", "split_k_slices", "raster_order", "swizzle_size", "use_pdl", "stages"),
        *("iterator_algorithm", "eq_gemm_provider", "op_class", "min_cc", "max_cc"),
        *(f"{part}_{axis}" for part in ("cta", "cluster", "warps", "inst") for axis in "mnk"),
        *(f"cluster_{axis}_fallback" for axis in "mnk"),
    }
)


def read_cutlass(file: InputFile, options: ReadOptions) -> FileContents:
    where = require_platform(find_platform_file(file.path, options.platform), file.path)
    return FileContents.of(file.path, _entries(file, where))


def _entries(file: InputFile, where: PlatformFile) -> Iterator[Entry]:
    origin = Origin.of(file.path)
    platform = where.at_file("cutlass_profiler_table", origin.text)
    rows = read_csv_rows(
        file.path,
        "a table of cutlass_profiler",
        lambda cells: set(_FIRST) <= {cell.strip() for cell in cells},
    )
    for row in rows:
        if len(row.cells) < len(_FIRST):  # of the next report
            continue
        try:
            yield _measurement(row, platform)
        except EntryError as error:
            yield origin.reject(str(error), ",".join(row.cells), row.number)


def _measurement(row: CsvRow, platform: Platform) -> Measurement:
    """Make the measurement of a row.

    Raises:
        EntryError: A cell is not what its column must hold.
    """
    cells = row.by_name()
    if _AFTER_ARGUMENTS not in cells or _TIME not in cells:
        raise EntryError(f"a table must have the columns {_AFTER_ARGUMENTS} and {_TIME}")
    disposition, status = cells["Disposition"].lower(), cells["Status"].lower()
    if disposition not in _OUTCOMES:
        raise EntryError(f"Disposition must be one of {', '.join(_OUTCOMES)}")
    outcome = _OUTCOMES[disposition]
    if outcome is Outcome.OK and status != "success":
        outcome = Outcome.LAUNCH_ERROR
    ok = outcome is Outcome.OK
    return Measurement(
        candidate=_candidate(cells, row.header),
        platform=platform,
        outcome=outcome,
        latencies_s=(to_seconds(read_number(cells[_TIME], _TIME), 1e3, _TIME),) if ok else (),
        runs_per_repeat=1 if ok else 0,
        measured_at="",
        error="" if ok else f"{disposition}: {status}",
    )


def _candidate(cells: Mapping[str, str], header: Sequence[str]) -> Candidate:
    """Make the candidate: the arguments of the problem and those of the kernel, which its name completes."""
    first, last = header.index(_FIRST[-1]) + 1, header.index(_AFTER_ARGUMENTS)
    arguments = {name: cells[name] for name in header[first:last] if cells[name]}
    decisions = {name: read_decision(value) for name, value in arguments.items() if name in _OF_KERNEL}
    decisions |= {name.lower(): cells[name] for name in ("Provider", "Operation")}
    return Candidate(
        _workload(cells["OperationKind"], arguments), name_space("cutlass", decisions), Config(decisions)
    )


def _workload(kind: str, arguments: Mapping[str, str]) -> Workload:
    """Make the workload: sizes are arguments of one letter and the batch, all else tells it from others."""
    problem = {name: value for name, value in arguments.items() if name not in _OF_KERNEL}
    sizes = {name: problem.pop(name) for name in list(problem) if name.islower() and len(name) == 1}
    if "batch_count" in problem and "b" not in sizes:
        sizes["b"] = problem.pop("batch_count")
    dims = {name: int(value) for name, value in sizes.items() if _SIZE.fullmatch(value)}
    if len(dims) < len(sizes):
        raise EntryError("sizes must be positive integers")
    return foreign_workload("cutlass", kind, [kind, *sorted(problem.items())], dims)
