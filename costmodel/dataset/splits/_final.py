"""Shapes reserved for one final report: no other split trains or tests on them.

Learners, features and settings are chosen by evaluating again and again. What they are worth then has to be
measured on workloads that had no say in it. ``final_report.json`` in a dataset's folder lists their shapes by
family; the strategy ``final-report`` judges by them what was learned from all others.

A third of each family is kept, those whose names have the lowest SHA-256: no one chooses, and a shape that is
measured later moves few of the others.
"""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from costmodel.dataset.table._candidates import Candidates
from costmodel.dataset.table._dataset import Dataset
from costmodel.dataset.table._files import add_checksums, check_checksum
from costmodel.errors import CostModelError
from costmodel.files import write_whole
from costmodel.reading import is_file, read_json
from costmodel.records._workload import Shape, Workload

FINAL_REPORT = "final-report"
FILE_NAME = "final_report.json"
_SHARE = 1 / 3


def choose_final_shapes(workloads: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """By family, names of the shapes to keep: a third of each, rounded, by the hash of their names.

    Args:
        workloads: Names of what was measured.
    """
    of_family: dict[str, set[str]] = {}
    for name in workloads:
        shape = _shape(name)
        of_family.setdefault(shape.family, set()).add(shape.name)
    return {
        family: tuple(sorted(sorted(shapes, key=_hash)[: round(_SHARE * len(shapes))]))
        for family, shapes in sorted(of_family.items())
    }


def write_final_shapes(dataset: Dataset) -> Path:
    """Choose the shapes of a dataset's final report, and write them into its folder.

    Raises:
        CostModelError: If the dataset was not read from a file, or its folder cannot be written.
    """
    if dataset.file is None:
        raise CostModelError(
            "A final report must be of a dataset in a folder, but this one was made in memory."
        )
    folder = dataset.file.path.parent
    chosen = choose_final_shapes(dataset.workloads)
    write_whole(folder / FILE_NAME, msgspec.json.format(msgspec.json.encode(chosen), indent=2) + b"\n")
    add_checksums(folder, [FILE_NAME])
    return folder / FILE_NAME


def find_final_report(dataset: Dataset) -> NDArray[np.bool_]:
    """``(n,)`` whether each row of a dataset is kept for its final report; none where it has no such file.

    Raises:
        CostModelError: The file is damaged.
    """
    return _kept_candidates(dataset)[dataset.rows["candidate"]]


def drop_final_report(dataset: Dataset) -> Dataset:
    """Return the dataset without what it reserves for its final report, or unchanged if it reserves nothing.

    Raises:
        CostModelError: If the file that lists the reserved shapes is damaged.
    """
    kept = _kept_candidates(dataset)
    if not kept.any():
        return dataset
    left = ~kept
    place = np.cumsum(left) - 1
    rows = dataset.measurements[left[dataset.measurements["candidate"]]]
    return Dataset(
        Candidates(dataset.columns.table.filter(pa.array(left))),
        dataset.platforms,
        rows.assign(candidate=place[rows["candidate"]]).reset_index(drop=True),
    )


def _kept_candidates(dataset: Dataset) -> NDArray[np.bool_]:
    """Return ``(c,)`` whether each candidate is of a shape that is kept."""
    shapes = {name for names in _final_shapes(dataset).values() for name in names}
    columns = dataset.columns
    kept = np.array([workload.shape.name in shapes for workload in columns.workloads], dtype=np.bool_)
    return np.asarray(kept[columns.workload_of])


def _final_shapes(dataset: Dataset) -> Mapping[str, tuple[str, ...]]:
    file = dataset.file.path.parent / FILE_NAME if dataset.file else None
    if file is None or not is_file(file):
        return {}
    check_checksum(file.parent, file.name)
    return read_json(file, dict[str, tuple[str, ...]], "a list of shapes by family", remedy="Write it again.")


def _shape(workload: str) -> Shape:
    return Workload.parse(workload).shape


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
