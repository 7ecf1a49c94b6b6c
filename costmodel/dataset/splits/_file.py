"""Splits stored in a dataset's folder, so that everyone tests on the same rows.

``splits/<name>.json`` is one line of JSON:

- ``version``: 1.
- ``name``: that of the file.
- ``strategy``, ``seed``, ``parameters``: what made it, see ``SplitRecipe``; parameters in use only.
- ``dataset_sha256``: SHA-256 of ``measurements.parquet``. The file is of no use for another one.
- ``rows``: number n of rows, see below.
- ``twins``: groups of devices that are held out as one.
- ``folds``: for each, ``held_out`` (a value; names of twins joined by " + "), ``test`` (the rows to be judged
  by) and ``shots`` (few-shot only: the rows to learn from whose tasks are held out). All rows that are not in
  ``test`` are there to learn from, but for those that are kept for the final report.

A row is a distinct (``candidate_id``, ``platform_id``) among the measurements with empty ``co_runners``. Rows
are named by their place, from 0, in the order of ``workload``, then of the platform's name, then of
``candidate_id``, as strings by code point. A platform's name is ``<device.name>/<isolation>/<sms_granted>``.
``test`` and ``shots`` are run lengths: rows left out, rows taken, rows left out, and so on, until the last
that is taken; ``[2, 3, 1, 1]`` takes the rows 2, 3, 4 and 6.

The same dataset and recipe give the same bytes. ``SHA256SUMS`` names the file.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from costmodel.dataset.splits._folds import Fold, Twins
from costmodel.dataset.splits._make import (
    FINAL_REPORT,
    STRATEGIES,
    Split,
    SplitRecipe,
    check_split,
    find_final_report,
)
from costmodel.dataset.table._columns import Mask
from costmodel.dataset.table._dataset import Dataset, DatasetFile, make_categorical
from costmodel.dataset.table._files import add_checksums, check_checksum
from costmodel.errors import CostModelError
from costmodel.files import write_whole
from costmodel.reading import is_file, read_json, refusing


def run_lengths(taken: Mask) -> list[int]:
    """Lengths of the runs of an ``(n,)`` mask, beginning with what is not taken, up to the last that is.

    Example:
        >>> run_lengths(np.array([False, False, True, True, True, False, True]))
        [2, 3, 1, 1]
    """
    edges = np.flatnonzero(np.diff(taken, prepend=False, append=False))
    lengths: list[int] = np.diff(edges, prepend=0).tolist()
    return lengths


def taken_by(runs: Sequence[int], n: int) -> Mask:
    """Return the ``(n,)`` mask that has these runs, the inverse of ``run_lengths``.

    Raises:
        ValueError: They are no runs of so many rows.
    """
    if min(runs, default=0) < 0 or sum(runs) > n:
        raise ValueError(f"runs must be at least 0 and sum to at most {n}, but got {sum(runs)}")
    taken = np.zeros(n, dtype=np.bool_)
    taken[: sum(runs)] = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
    return taken


FOLDER_NAME = "splits"
VERSION = 1

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class _Fold(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A fold as the file says it."""

    held_out: str
    test: list[int]
    shots: list[int] = []


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the file says; see this module."""

    version: int
    name: str
    strategy: str
    seed: int
    parameters: dict[str, Any]
    dataset_sha256: str
    rows: int
    twins: Twins
    folds: list[_Fold]


def write_split(dataset: Dataset, split: Split, *, force: bool = False) -> Path:
    """Write a split into its dataset's folder and add it to ``SHA256SUMS``.

    Args:
        dataset: Dataset that was read from a file.
        split: A split of that dataset with a name of its own.
        force: Replace an existing split of this name. Default: False.

    Returns:
        Path of the file. Nothing changes if the file already contains this split.

    Raises:
        CostModelError: If the name is invalid or taken, or the file cannot be written.
    """
    of = _file_of(dataset)
    folder = of.path.parent
    if not _NAME.fullmatch(split.name) or split.name in STRATEGIES:
        raise CostModelError(
            "The name of a split must consist of letters, digits, '.', '_' and '-', begin with a letter or "
            f"digit, and differ from the names of strategies, but got {split.name!r}."
        )
    file = folder / FOLDER_NAME / f"{split.name}.json"
    data = msgspec.json.encode(_to_file(dataset, split, of.sha256)) + b"\n"
    try:
        if is_file(file) and file.read_bytes() != data and not force:
            raise CostModelError(
                f"{file} must not exist, or contain the same split, but it contains another one. Choose "
                "another name, or replace it (--force)."
            )
        write_whole(file, data)
        add_checksums(folder, [_in_folder(split.name)])
    except OSError as error:
        raise CostModelError(f"Cannot write {file}: {error.strerror}.") from error
    return file


def read_split(dataset: Dataset, name: str) -> Split:
    """Read the split of this name from a dataset's folder, and validate it.

    Args:
        dataset: Dataset that was read from a file.
        name: Name of the split.

    Raises:
        CostModelError: If the split does not exist, is damaged, or was made for other contents of the
            dataset.
    """
    of = _file_of(dataset)
    folder = of.path.parent
    file = folder / FOLDER_NAME / f"{name}.json"
    if not _NAME.fullmatch(name) or not is_file(file):
        written = sorted(each.stem for each in file.parent.glob("*.json"))
        raise CostModelError(
            f"A split must be one of {', '.join(STRATEGIES)}, or one that `costmodel dataset split` wrote "
            f"into {folder / FOLDER_NAME} ({', '.join(written) or 'there are none'}), but got {name!r}."
        )
    check_checksum(folder, _in_folder(name))
    said: _File = read_json(file, _File, "a split", remedy="Write it again.")
    _check_is_of(file, said, of.sha256)
    with refusing(file, "a split", "Write it again."):
        split = _from_file(dataset, said)
    check_split(dataset, split)
    return split


def _file_of(dataset: Dataset) -> DatasetFile:
    if dataset.file is None:
        raise CostModelError(
            "A split is stored with its dataset, which must be read from a file, but this dataset was made "
            "in memory. Build it, and load it from its folder."
        )
    return dataset.file


def _in_folder(name: str) -> str:
    """Path of a split in its dataset's folder, as in ``SHA256SUMS``."""
    return f"{FOLDER_NAME}/{name}.json"


def _check_is_of(file: Path, said: _File, sha256: str) -> None:
    if said.version != VERSION:
        raise CostModelError(
            f"{file} must be of version {VERSION}, but is of version {said.version}. Use the version of "
            "costmodel that wrote it, or write it again with `costmodel dataset split --force`."
        )
    if said.dataset_sha256 != sha256:
        raise CostModelError(
            f"{file} must be a split of the dataset in its folder, which has sha256 {sha256[:16]}, but it "
            f"was made for {said.dataset_sha256[:16]}: the dataset has changed since. Restore the earlier "
            "dataset, or write the split again with `costmodel dataset split --force`; results on the two "
            "cannot be compared."
        )


def _to_file(dataset: Dataset, split: Split, sha256: str) -> _File:
    order, recipe = _canonical_order(dataset), split.recipe
    return _File(
        version=VERSION,
        name=split.name,
        strategy=recipe.strategy,
        seed=recipe.seed,
        parameters=recipe.parameters,
        dataset_sha256=sha256,
        rows=len(order),
        twins=split.twins,
        folds=[
            _Fold(fold.held_out, *(run_lengths(np.isin(order, rows)) for rows in (fold.test, fold.shots)))
            for fold in split.folds
        ],
    )


def _from_file(dataset: Dataset, said: _File) -> Split:
    recipe = {"strategy": said.strategy, "seed": said.seed, **said.parameters}
    order = _canonical_order(dataset)
    if said.rows != len(order):
        raise ValueError(f"rows must be {len(order)}, but got {said.rows}")
    # What is said of canonical places, by position in the rows.
    place = np.argsort(order)
    # What is kept for the final report is not there to learn from.
    kept = find_final_report(dataset) & (said.strategy != FINAL_REPORT)
    folds = []
    for fold in said.folds:
        test, shots = (taken_by(runs, len(order))[place] for runs in (fold.test, fold.shots))
        learned = np.flatnonzero(~test & ~kept)
        folds.append(Fold(fold.held_out, learned, np.flatnonzero(test), np.flatnonzero(shots)))
    return Split(said.name, msgspec.convert(recipe, SplitRecipe), said.twins, tuple(folds))


def _canonical_order(dataset: Dataset) -> NDArray[np.intp]:
    """Return positions of the rows in the order by which the file names them."""
    rows = dataset.rows
    platforms = make_categorical(
        rows["platform"].to_numpy(), [platform.name for platform in dataset.platforms]
    )
    ids = make_categorical(rows["candidate"].to_numpy(), dataset.columns.ids)
    return np.lexsort((ids.codes, platforms.codes, rows["workload"].cat.codes))
