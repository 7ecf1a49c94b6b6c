"""T4 files: results of any auto-tuner in the format that the community agreed on; see ``_t4_result``."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from costmodel.dataset.importers._entry import EntryError
from costmodel.dataset.importers._exported import KEY, records_behind
from costmodel.dataset.importers._origin import Origin
from costmodel.dataset.importers._platform_file import PlatformFile, needed_platform
from costmodel.dataset.importers._source import Source
from costmodel.dataset.importers._t4_result import read_result, show_result
from costmodel.dataset.importers._validate import Reject
from costmodel.errors import CostModelError
from costmodel.records import Measurement, Workload


def is_t4(document: Mapping[str, Any]) -> bool:
    """Whether a document is a T4 file, and no cache of Kernel Tuner."""
    return "results" in document and "cache" not in document


def t4_source(
    path: Path, document: Mapping[str, Any], platform: PlatformFile | None, workloads: Sequence[Workload]
) -> Source:
    """What a T4 file holds. A file that we exported gives the records that it was made of.

    Args:
        path: The file, for messages.
        document: What is in it.
        platform: Where it was measured; only a file that we exported says it.
        workloads: What was measured, exactly one, unless ``platform`` says it.

    Raises:
        CostModelError: It has no list of results, or nothing says the platform or the workload.
    """
    results = document["results"]
    if not isinstance(results, list):
        raise CostModelError(f"{path} must be a T4 file with a list of results, but results is no list.")
    origin = Origin.of(path)
    if KEY in document:
        return Source.of(path, _own_records(results, origin))
    where = needed_platform(platform, path)
    workload = where.workload or (workloads[0] if len(workloads) == 1 else None)
    if workload is None:
        raise CostModelError(
            f"A T4 file does not say what was measured: name one workload for {path.name}, but got "
            f"{len(workloads)}. Give `--workload suite.kernel-x4096`, or write the name as `workload` in the "
            "file of the platform."
        )
    software = {**where.platform.software, "t4_file": origin.text}
    measured_on = msgspec.structs.replace(where.platform, software=software)

    def entries() -> Iterator[Measurement | Reject]:
        for number, result in enumerate(results, start=1):
            try:
                yield read_result(result, workload, measured_on)
            except EntryError as error:
                yield origin.reject(str(error), result, number)

    return Source.of(path, entries())


def _own_records(results: Sequence[Any], origin: Origin) -> Iterator[Measurement | Reject]:
    for number, result in enumerate(results, start=1):
        try:
            yield from records_behind(result, show_result)
        except EntryError as error:
            yield origin.reject(str(error), result, number)
