"""T4 files: results of any auto-tuner in the format that the community agreed on; see ``_t4_result``."""

from collections.abc import Iterator
from typing import Any

import msgspec

from costmodel.dataset.importers._base import InputFile, ReadOptions
from costmodel.dataset.importers._document import Document
from costmodel.dataset.importers._entry import EntryError
from costmodel.dataset.importers._exported import KEY, records_behind
from costmodel.dataset.importers._origin import Origin
from costmodel.dataset.importers._platform_file import needed_platform, platform_file_for
from costmodel.dataset.importers._source import Reject, Source
from costmodel.dataset.importers.t4._result import read_result, show_result
from costmodel.errors import CostModelError
from costmodel.records._measurement import Measurement


def read_t4(file: InputFile, options: ReadOptions) -> Source:
    """What a T4 file holds. A file that we exported gives the records that it was made of.

    Others do not say where they were measured, nor what: the file of the platform does, or the options.

    Raises:
        CostModelError: It has no list of results, or nothing says the platform or the workload.
    """
    path, document = file.path, file.document
    if "results" not in document.counts:
        raise CostModelError(
            f"{path} must be a T4 file with a list of results, but its results are not a list."
        )
    origin = Origin.of(path)
    if KEY in document:
        return Source.of(path, _own_records(document, origin))
    where = needed_platform(platform_file_for(path, options.platform), path)
    workloads = options.workloads
    workload = where.workload or (workloads[0] if len(workloads) == 1 else None)
    if workload is None:
        raise CostModelError(
            f"A T4 file does not name its workload, so exactly one must be given for {path.name}, but got "
            f"{len(workloads)}. Give `--workload suite.kernel-x4096`, or write the name as `workload` in "
            "the platform file."
        )
    software = {**where.platform.software, "t4_file": origin.text}
    measured_on = msgspec.structs.replace(where.platform, software=software)

    unit = _time_unit(document.fields.get("metadata"))

    def entries() -> Iterator[Measurement | Reject]:
        for number, (_, result) in enumerate(document.entries("results"), start=1):
            try:
                yield read_result(result, workload, measured_on, unit)
            except EntryError as error:
                yield origin.reject(str(error), result, number)

    return Source.of(path, entries())


def _time_unit(metadata: Any) -> str:
    """The unit that a file names for all of its runtimes; empty if it names none."""
    unit = metadata.get("timeunit") if isinstance(metadata, dict) else None
    return unit if isinstance(unit, str) else ""


def _own_records(document: Document, origin: Origin) -> Iterator[Measurement | Reject]:
    for number, (_, result) in enumerate(document.entries("results"), start=1):
        try:
            yield from records_behind(result, show_result)
        except EntryError as error:
            yield origin.reject(str(error), result, number)
