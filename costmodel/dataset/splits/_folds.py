"""Folds: training and test rows of a model, and the checks that keep them apart.

Notations:
    n: rows of ``Dataset.rows``; positions are positions in it.
    labels: ``(n,)`` what is held out of each row, such as its workload; rows of one label stay together.
    draws: ``(n,)`` numbers in [0, 1) that follow from each row's content and a seed, see ``draw_rows``.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.arrays import Positions
from costmodel.dataset.table._dataset import Dataset
from costmodel.errors import CostModelError
from costmodel.records._device_table import find_device
from costmodel.records._platform import Device
from costmodel.records._workload import Workload

Labels = NDArray[Any]
_ROWS = 65_536  # that are objects at once


def _no_rows() -> Positions:
    return np.zeros(0, dtype=np.intp)


@dataclass(frozen=True)
class Fold:
    """One fold of a split.

    Attributes:
        held_out: What is on the test side.
        train: Positions of the training rows, ascending.
        test: Positions of the test rows, ascending.
        shots: Positions of the rows of ``train`` that belong to what is held out. In few-shot splits these
            are rows of the tested tasks; in whole-device-only splits, the measurements on the whole device.
    """

    held_out: str
    train: Positions
    test: Positions
    shots: Positions = field(default_factory=_no_rows)

    @classmethod
    def of(cls, held_out: str, test: NDArray[np.bool_], shots: NDArray[np.bool_] | None = None) -> "Fold":
        """Make the fold that trains on every row that is not in ``test``.

        Args:
            held_out: What is on the test side.
            test: ``(n,)`` mask of the test rows.
            shots: ``(n,)`` mask of the training rows that belong to what is held out. Default: none.
        """
        shot = _no_rows() if shots is None else np.flatnonzero(shots)
        return cls(held_out, np.flatnonzero(~test), np.flatnonzero(test), shot)

    def among(self, rows: Positions) -> "Fold":
        """Map this fold of some rows to a fold of all rows: position i becomes ``rows[i]``."""
        return Fold(self.held_out, rows[self.train], rows[self.test], rows[self.shots])


def draw_rows(dataset: Dataset, seed: int) -> NDArray[np.float64]:
    """Return a number in [0, 1) for each row, from the SHA-256 of seed, candidate and platform.

    The number does not depend on the order of rows, and does not change when other rows are added.
    """
    candidates = [candidate_id.encode() for candidate_id in dataset.columns.ids]
    platforms = [platform.platform_id.encode() for platform in dataset.platforms]
    columns = [dataset.rows[name].to_numpy() for name in ("candidate", "platform")]
    prefix, sha256 = f"{seed}/".encode(), hashlib.sha256
    draws = np.empty(len(dataset.rows))
    for start in range(0, len(draws), _ROWS):
        pairs = zip(*(column[start : start + _ROWS].tolist() for column in columns), strict=True)
        digests = b"".join(
            sha256(b"%b%b/%b" % (prefix, candidates[c], platforms[p])).digest()[:8] for c, p in pairs
        )
        # 53 bits fit a float64.
        draws[start : start + _ROWS] = (np.frombuffer(digests, dtype=">u8") >> 11) / 2**53
    return draws


def leave_out(labels: Labels, folds: int = 0) -> tuple[Fold, ...]:
    """One fold for each label, in ascending order, or ``folds`` groups of labels of nearly as many rows.

    A group is held out as one. The largest label goes first, each to the group that has fewest rows (Graham,
    "Bounds on multiprocessing timing anomalies", 1969); no chance enters.
    """
    of_row, distinct = pd.factorize(labels, sort=True)
    sizes = np.bincount(of_row, minlength=len(distinct))
    if folds == 0 or folds >= len(distinct):
        return tuple(Fold.of(str(label), of_row == i) for i, label in enumerate(distinct))
    group, rows = np.zeros(len(distinct), dtype=np.intp), np.zeros(folds, dtype=np.int64)
    for label in np.argsort(-sizes, kind="stable"):
        group[label] = rows.argmin()
        rows[group[label]] += sizes[label]
    names = (" + ".join(map(str, distinct[group == i])) for i in range(folds))
    return tuple(Fold.of(name, group[of_row] == i) for i, name in enumerate(names))


def random_fold(tasks: Labels, draws: NDArray[np.float64], share: float) -> Fold:
    """Hold out a share of each task's rows, rounded, but at least one and not all.

    A task of one row is held out with the probability ``share``.
    """
    ranks, sizes = _ranks(tasks, draws)
    count = np.clip(np.rint(share * sizes), 1, np.maximum(sizes - 1, 1))
    return Fold.of(f"{share:.0%} of each task", np.where(sizes > 1, ranks < count, draws < share))


def few_shot(fold: Fold, tasks: Labels, draws: NDArray[np.float64], shots: int) -> Fold:
    """Move ``shots`` rows of each held-out task to the training side, all but one where it has no more."""
    ranks, sizes = _ranks(tasks, draws)
    held_out = np.isin(np.arange(len(tasks)), fold.test)
    moved = held_out & (ranks < np.minimum(shots, sizes - 1))
    return Fold.of(fold.held_out, held_out & ~moved, moved)


def keep_whole_device(fold: Fold, whole: NDArray[np.bool_]) -> Fold:
    """Move what was measured of the held-out value on the whole device to the training side."""
    held_out = np.isin(np.arange(len(whole)), fold.test)
    return Fold.of(fold.held_out, held_out & ~whole, held_out & whole)


def select_whole_device(rows: pd.DataFrame) -> NDArray[np.bool_]:
    """Return an ``(n,)`` mask of the rows with the largest SM budget of their device."""
    largest = rows.groupby("device")["sms_granted"].transform("max")
    return (rows["sms_granted"] == largest).to_numpy()


def _ranks(tasks: Labels, draws: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each row's place by draw among the rows of its task, from 0, and how many these are."""
    grouped = pd.Series(draws).groupby(tasks)
    return grouped.rank(method="first").to_numpy().astype(np.int64) - 1, grouped.transform("size").to_numpy()


def check_folds(
    folds: Iterable[Fold], tasks: Labels, labels: Labels | None, whole: NDArray[np.bool_] | None = None
) -> None:
    """Check that both sides of each fold have rows, that nothing leaks, and that no row is tested twice.

    Args:
        folds: What to check.
        tasks: ``(n,)`` task of each row.
        labels: What is held out of each row; None where rows of one task may be on both sides.
        whole: Where shots are what was measured on the whole device: ``(n,)`` whether a row was.

    Raises:
        CostModelError: Something is wrong.
    """
    tested = np.zeros(len(tasks), dtype=np.int64)
    of_row = {} if labels is None else {"held-out value": _coded(labels), "task": _coded(tasks)}
    for fold in folds:
        _check_fold(fold, of_row, len(tasks))
        if labels is not None:
            _check_shots(fold, of_row["task"], whole)
        tested[fold.test] += 1
    if np.any(tested > 1):
        raise CostModelError(
            f"A row may be on the test side of at most one fold of a split, but {np.sum(tested > 1)} are on "
            "the test side of several. Make the split again."
        )


@dataclass(frozen=True)
class _Codes:
    """Labels of rows as positions among the distinct ones, which compare faster than names."""

    of_row: NDArray[np.intp]
    names: Labels

    def missing(self, some: Positions, among: Positions) -> Labels:
        """Return names of the labels of some rows that none of the others has."""
        return self.names[self._present(some) & ~self._present(among)]

    def shared(self, some: Positions, others: Positions) -> Labels:
        """Return names of the labels that both have."""
        return self.names[self._present(some) & self._present(others)]

    def _present(self, rows: Positions) -> NDArray[np.bool_]:
        return np.bincount(self.of_row[rows], minlength=len(self.names)) > 0


def _coded(labels: Labels) -> _Codes:
    codes, names = pd.factorize(labels)
    return _Codes(np.asarray(codes, dtype=np.intp), np.asarray(names))


def _taken(rows: Positions, n: int) -> NDArray[np.bool_]:
    """Return ``(n,)`` whether each row is at one of these positions."""
    taken = np.zeros(n, dtype=np.bool_)
    taken[rows] = True
    return taken


def _check_fold(fold: Fold, labels: Mapping[str, _Codes], n: int) -> None:
    if not fold.train.size or not fold.test.size:
        raise CostModelError(
            f"Both sides of a fold must have rows, but holding out {fold.held_out} leaves {fold.train.size} "
            f"to train and {fold.test.size} to test. Measure more, or choose another split."
        )
    learned = _taken(fold.train, n)
    _refuse_shared(fold, "candidate and platform", fold.test[learned[fold.test]])
    learned[fold.shots] = False
    source = np.flatnonzero(learned)
    for name, codes in labels.items():
        _refuse_shared(fold, name, codes.shared(source, fold.test))


def _refuse_shared(fold: Fold, name: str, shared: Labels) -> None:
    if shared.size:
        raise CostModelError(
            f"No {name} may be on both sides of a fold, but holding out {fold.held_out} leaves "
            f"{shared.size} on both, such as {shared[0]}. Make the split again."
        )


def _check_shots(fold: Fold, tasks: _Codes, whole: NDArray[np.bool_] | None) -> None:
    """Check that shots are of tested tasks; given ``whole``, that they and no others are of whole devices."""
    strange = tasks.missing(fold.shots, fold.test) if whole is None else tasks.names[:0]
    if strange.size or not _taken(fold.train, len(tasks.of_row))[fold.shots].all():
        raise CostModelError(
            "The shots of a fold must be training rows of tasks that it tests, but those of "
            f"{fold.held_out} are not, such as {strange[:1].tolist()}. Make the split again."
        )
    if whole is not None and (whole[fold.test].any() or not whole[fold.shots].all()):
        raise CostModelError(
            "The shots of a fold must be exactly the whole-device measurements of what is held out, but "
            f"those of {fold.held_out} are not. Make the split again."
        )


# Groups of devices that are held out as one.
Twins = tuple[tuple[str, ...], ...]


def labels_of(dataset: Dataset, column: str | None, twins: Twins) -> Labels | None:
    """Return ``(n,)`` what is held out of each row; None if rows are.

    Raises:
        CostModelError: There are fewer than two values to hold out.
    """
    if column is None:
        return None
    if column == "workload":
        siblings = shape_siblings(dataset.workloads)
        joined = {name: " + ".join(group) for name, group in siblings.items()}
        labels: Labels = dataset.rows["workload"].astype(object).map(joined).to_numpy()
    elif column == "architecture":
        architectures = np.array([_architecture(platform.device) for platform in dataset.platforms])
        labels = architectures[dataset.rows["platform"]]
    else:
        group_of = {device: " + ".join(group) for group in twins for device in group}
        names = dataset.rows[column].to_numpy()
        labels = pd.Series(names).map(lambda name: group_of.get(name, name)).to_numpy()
    distinct = pd.factorize(labels, sort=True)[1]
    if len(distinct) < 2:
        help_ = (
            "These are near-twins, which are held out together; keep them apart (--keep-twins-apart) to hold "
            "each of them out alone."
            if twins
            else "Measure more, or choose another split."
        )
        raise CostModelError(
            f"Leaving one {column} out needs at least two, but the dataset has {distinct.tolist()}. {help_}"
        )
    return labels


def shape_siblings(workloads: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return, for each workload, those of the same shape in any dtype, layout or epilogue.

    Each workload is among its own siblings. Measurements of one reveal much about the others.
    """
    of_shape: dict[str, list[str]] = {}
    for name in workloads:
        of_shape.setdefault(Workload.parse(name).shape.name, []).append(name)
    return {name: tuple(names) for names in of_shape.values() for name in names}


def _architecture(device: Device) -> str:
    """Architecture of a device, looked up by name where its records do not say it."""
    try:
        return device.architecture or find_device(device.name).architecture
    except CostModelError as error:
        raise CostModelError(
            "Leaving one architecture out requires the architecture of each device, but the records do not "
            f"contain that of {device.name!r}, and no device of this name is known. Measure it with its "
            f"architecture, or choose leave-one-device-out. {error}"
        ) from None
