"""Export a dataset, or a part of it, to files of other programs."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from costmodel.dataset._track import Track, untracked
from costmodel.dataset.exporters._json import export_kernel_tuner, export_t4
from costmodel.dataset.exporters._metaschedule import export_metaschedule
from costmodel.dataset.exporters._own import export_parquet, export_records
from costmodel.dataset.exporters._report import ExportReport
from costmodel.dataset.table._read import DatasetLike, iter_records
from costmodel.dataset.table._records import Records
from costmodel.errors import CostModelError

Export = Callable[[Iterator[Records], Path], ExportReport]

_EXPORTS: Mapping[str, Export] = {
    "records": export_records,
    "parquet": export_parquet,
    "kernel-tuner": export_kernel_tuner,
    "t4": export_t4,
    "metaschedule": export_metaschedule,
}
EXPORT_FORMATS = tuple(_EXPORTS)


def export_dataset(  # noqa: PLR0913 (one argument a knob)
    dataset: DatasetLike,
    out: Path,
    format_name: str,
    *,
    workload: str | None = None,
    device: str | None = None,
    track: Track = untracked,
) -> ExportReport:
    """Export a dataset, or a part of it, to files of other programs.

    Args:
        dataset: Dataset, or its name or path; see ``load_dataset``.
        out: New file for ``records`` (.jsonl) and ``parquet``; folder for the other formats.
        format_name: One of ``EXPORT_FORMATS``.
        workload: Name of the workload to export. Default: all.
        device: Name of the device to export. Default: all.
        track: Reports progress. Default: no report.

    Raises:
        CostModelError: If the dataset cannot be read or has no such measurements, or the files cannot be
            written.
    """
    if format_name not in _EXPORTS:
        raise CostModelError(f"The format must be one of {', '.join(_EXPORTS)}, but got {format_name!r}.")
    workloads, devices = (None if name is None else (name,) for name in (workload, device))
    try:
        report = _EXPORTS[format_name](
            iter_records(dataset, track, workloads=workloads, devices=devices), out
        )
    except OSError as error:
        raise CostModelError(f"Cannot write {out}: {error.strerror}.") from error
    if not report.measurements and not report.left_out:
        raise CostModelError(
            f"{dataset} must have measurements of workload {workload or 'any'} on device {device or 'any'}, "
            "but has none. `costmodel dataset describe` shows what it has."
        )
    return report
