"""Results of PyTorch's TunableOp: the library's kernel that it chose for each matrix product, with its time.

A line is ``operator,parameters,solution,milliseconds``, as in ``GemmTunableOp_float_NT,nt_25088_4096_64,
Gemm_Hipblaslt_1219,1.262``; lines before begin with ``Validator`` and name versions. Source: PyTorch 2.8,
``aten/src/ATen/cuda/tunable/README.md`` and ``GemmCommon.h``. The device is not named, and of each product
only the solution that was fastest is there.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from costmodel.dataset.sources._base import (
    InputFile,
    PlatformFile,
    ReadOptions,
    find_platform_file,
    foreign_workload,
    require_platform,
)
from costmodel.dataset.sources._entry import EntryError, read_number, to_seconds
from costmodel.dataset.sources._source import Entry, FileContents, Origin
from costmodel.reading import read_lines
from costmodel.records._candidate import Candidate, Config
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._platform import Platform
from costmodel.records._workload import Workload

_VALIDATOR = "Validator"
_SIZE = r"\d{1,16}"
_PRODUCT = re.compile(
    rf"(?P<layout>[ntc]{{2}})_(?P<m>{_SIZE})_(?P<n>{_SIZE})_(?P<k>{_SIZE})(?:_B_(?P<b>{_SIZE}))?(?P<rest>_.*)?"
)
_CELLS = 4


def read_tunable_op(file: InputFile, options: ReadOptions) -> FileContents:
    where = require_platform(find_platform_file(file.path, options.platform), file.path)
    return FileContents.of(file.path, _entries(file.path, where))


def _entries(path: Path, where: PlatformFile) -> Iterator[Entry]:
    origin = Origin.of(path)
    versions: dict[str, str] = {}
    platform = where.at_file("tunable_op_results", origin.text)
    for number, line in read_lines(path, "results of TunableOp"):
        text = line.decode(errors="replace").strip()
        cells = [cell.strip() for cell in text.split(",")]
        if cells[0] == _VALIDATOR:
            versions[cells[1] if len(cells) > 1 else ""] = ",".join(cells[2:])
            platform = where.at_file("tunable_op_results", origin.text, **versions)
            continue
        try:
            yield _measurement(cells, platform)
        except EntryError as error:
            yield origin.reject(str(error), text, number)


def _measurement(cells: Sequence[str], platform: Platform) -> Measurement:
    """Make the measurement of a line.

    Raises:
        EntryError: It has other cells, or is not of a product.
    """
    if len(cells) < _CELLS:
        raise EntryError(
            "a line must name operator, parameters, solution and milliseconds (untuned ones have two)"
        )
    operator, parameters, solution, time_ms = cells[:_CELLS]
    return Measurement(
        candidate=Candidate(_workload(operator, parameters), "tunable_op", Config({"solution": solution})),
        platform=platform,
        outcome=Outcome.OK,
        latencies_s=(to_seconds(read_number(time_ms, "milliseconds"), 1e3, "milliseconds"),),
        runs_per_repeat=1,
        measured_at="",
    )


def _workload(operator: str, parameters: str) -> Workload:
    """Make the workload of a product: its sizes, and a hash of operator, layout and leading dimensions."""
    found = _PRODUCT.fullmatch(parameters)
    sizes = {name: int(found[name]) for name in "mnkb" if found[name]} if found else {}
    if not found or not all(0 < size < 2**53 for size in sizes.values()):
        raise EntryError("parameters must be of a matrix product, as in nt_25088_4096_64")
    return foreign_workload("tunable_op", operator, [operator, found["layout"], found["rest"] or ""], sizes)
