"""What a search knows before it measures: a model trained on other kernels and other devices."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from costmodel.dataset.splits._folds import shape_siblings
from costmodel.dataset.splits._similarity import device_similarity, twin_groups
from costmodel.dataset.table._dataset import Dataset
from costmodel.errors import CostModelError
from costmodel.features._compiled import COMPILED_COLUMNS
from costmodel.features._extract import COLUMNS, extract
from costmodel.kernels._sources import SOURCES
from costmodel.learners._registry import DEFAULT_LEARNER
from costmodel.records._candidate import DATA_FACTS, Candidate
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._platform import Platform
from costmodel.records._workload import Workload
from costmodel.transfer._base import TransferModel
from costmodel.transfer._make import make_model
from costmodel.transfer.models._conformal import Conformal
from costmodel.transfer.models._known_on_whole import KnownOnWhole
from costmodel.transfer.models._residual import Residual
from costmodel.transfer.prediction._model import Model, load_model

if TYPE_CHECKING:
    import pandas as pd

    from costmodel.search.spaces._base import SearchSpace


# Of all tables of operators; kernels of families have others beside them.
_BY_NAME = {column.name: column for column in (*COLUMNS, *COMPILED_COLUMNS)}
# The history that starts a search from nothing.
NOTHING = "nothing"
# What learns of kernels that were measured elsewhere, and the share of them from which on it does.
_KNOWN_ELSEWHERE, _ENOUGH = "known-elsewhere", 0.5


@dataclass(frozen=True)
class Knowledge:
    """A model trained on other kernels and other devices.

    Attributes:
        model: The model; None to start from nothing.
        columns: Names of the feature columns that it expects; None for those that the kernels have.
        facts: Description of the model and its training data, for the provenance of an answer.
        on_whole: Measurements of the tuned workload on the whole device, where it is tuned for a part of it.
        compiled: A model that also reads what a compiler made of kernels; None to choose by decisions alone.
    """

    model: TransferModel | None = None
    columns: tuple[str, ...] | None = None
    facts: Mapping[str, str] = field(default_factory=lambda: {"model": "scratch", "trained_on": "nothing"})
    on_whole: Sequence[Measurement] = ()
    compiled: "Knowledge | None" = None

    def told_of_whole(self, space: "SearchSpace") -> TransferModel | None:
        """Return the model for a space in its columns, told of what was measured on the whole device.

        None if nothing of the space ran there, or the model cannot be told.
        """
        measured = [each for each in self.on_whole if space.holds(each.candidate)]
        model = self.model.model if isinstance(self.model, Conformal) else self.model
        columns = [_BY_NAME.get(name) for name in self.columns or ()]
        known = [column for column in columns if column is not None]
        ran = any(each.outcome is Outcome.OK for each in measured)
        if not ran or not isinstance(model, Residual) or len(known) < len(columns):
            return None
        there = space.on(measured[0].platform)
        X = there.features([each.candidate.config for each in measured])[:, 0]
        return KnownOnWhole(model, known, X, np.array([each.latency_s for each in measured]))


def known_from(  # noqa: PLR0913 (what to learn, from what and how)
    history: Dataset | None,
    workload: Workload,
    device: str,
    family: str,
    *,
    learner: str | None = None,
    seed: int = 0,
    keep_twins_apart: bool | None = None,
    n_kernels: int | None = None,
) -> Knowledge:
    """Train a model on a history, for the search of one workload.

    Args:
        history: Measurements to learn from; None to start from nothing.
        workload: The workload to tune.
        device: Name of the device to tune on.
        family: Family of the kernels' parameters (see ``Candidate.family``).
        learner: Name of the learner. Default: ``kernel-ridge`` for MetaSchedule's kernels, ``stack`` for
            other sources, ``stack-above-analytic`` for families whose speed depends on their data, and
            ``source-mixture`` for kernels of another suite, of which only their latencies elsewhere are
            known. If kernels of this workload were measured on any platform,
            ``known-elsewhere``; for sources other than MetaSchedule, only if at least half of the kernels to
            choose from were.
        seed: Seed of the learner's random choices.
        keep_twins_apart: In a replay, whether to learn from near-twins of the device. None for a search on a
            device, which learns from everything.
        n_kernels: Number of kernels to choose from; None if unknown.

    Raises:
        CostModelError: No learner has this name.
    """
    if history is None:
        return Knowledge()
    held_out = tuple[str, ...]()
    if keep_twins_apart is not None:
        held_out = held_out_devices(history, workload, device, keep_twins_apart=keep_twins_apart)
    return learn(
        history, workload, device, learner, seed, family=family, held_out=held_out, n_kernels=n_kernels
    )


def learn(  # noqa: PLR0913 (what to learn, from what and how)
    history: Dataset,
    workload: Workload,
    device: str,
    learner: str | None,
    seed: int,
    *,
    family: str = "",
    held_out: Collection[str] = (),
    n_kernels: int | None = None,
) -> Knowledge:
    """Train a model on the measurements of this workload and others, on any device.

    The model learns only from kernels with the same parameters: those of MetaSchedule's spaces, or of one
    family.

    Args:
        history: Measurements to learn from.
        workload: The workload to tune.
        device: Name of the device to tune on.
        learner: Name of the learner (see ``costmodel.transfer.make_model``); None as in ``known_from``.
        seed: Seed of the learner's random choices.
        family: Family of the kernels' parameters (see ``Candidate.family``).
        held_out: Names of devices on which the workload and others of its shape are held out (see
            ``held_out_devices``).
        n_kernels: Number of kernels to choose from; None if unknown.

    Raises:
        CostModelError: No learner has this name.
    """
    rows = history.rows
    siblings = shape_siblings({workload.name, *history.workloads})[workload.name]
    of_held_out = rows["workload"].isin(list(siblings)) & rows["device"].isin(list(held_out))
    learned = _is_of_family(history, family) & ~of_held_out.to_numpy()
    left_out = _describe_left_out(set(rows.loc[of_held_out, "device"]), device)
    if not learned.any():
        nothing = Knowledge()
        return replace(nothing, facts={**nothing.facts, **left_out})
    rows = rows[learned]
    own = rows.loc[rows["workload"] == workload.name, "candidate"].nunique()
    chosen = learner or learner_for(history.candidates[rows["candidate"].iloc[0]], own, n_kernels)
    if of_held_out.any():
        model, columns = _fit_rows(history, rows, chosen, seed)
    else:
        model, columns = _fit_all_rows(history, family, chosen, seed)
    return Knowledge(
        model,
        columns,
        {
            "model": chosen,
            "trained_on": f"{_describe_rows(rows, workload.name, device)} of {history.name}",
            **left_out,
            "dataset_sha256": history.sha256,
        },
    )


@lru_cache(maxsize=4)
def _fit_all_rows(
    history: Dataset, family: str, learner: str, seed: int
) -> tuple[TransferModel, tuple[str, ...]]:
    """A model of all kernels of a family: searches that follow each other, as those of a job, share it."""
    return _fit_rows(history, history.rows[_is_of_family(history, family)], learner, seed)


def _fit_rows(
    history: Dataset, rows: "pd.DataFrame", learner: str, seed: int
) -> tuple[TransferModel, tuple[str, ...]]:
    """A model of some rows, and the names of its columns."""
    candidates = [history.candidates[i] for i in rows["candidate"]]
    table = extract(candidates, [history.platforms[i] for i in rows["platform"]])
    latency_s = rows["latency_s"].to_numpy(dtype=np.float64)
    model = make_model(learner, table.columns, seed).fit(table.values, latency_s, rows["task"].to_numpy())
    return model, tuple(column.name for column in table.columns)


def best_recorded(history: Dataset, workload: Workload, platforms: Sequence[Platform]) -> list[Candidate]:
    """Return the fastest recorded kernel of a workload per platform and source.

    The isolation mechanism does not matter.
    """
    rows = history.rows
    rows = rows[(rows["workload"] == workload.name) & np.isfinite(rows["latency_s"])]
    best: dict[str, Candidate] = {}
    for platform in platforms:
        here = (rows["device"] == platform.device.name) & (rows["sms_granted"] == platform.sms_granted)
        found = rows[here].sort_values("latency_s", kind="stable")
        sources = [history.candidates[i].source for i in found["candidate"]]
        for source in dict.fromkeys(sources):
            candidate = history.candidates[found["candidate"].iloc[sources.index(source)]]
            best.setdefault(candidate.candidate_id, candidate)
    return list(best.values())


def held_out_devices(
    history: Dataset, workload: Workload, device: str, *, keep_twins_apart: bool
) -> tuple[str, ...]:
    """Return the names of devices whose measurements would give away the answer of a replay.

    These are the device itself and, unless they are kept apart, its near-twins.
    """
    rows = history.rows
    siblings = shape_siblings({workload.name, *history.workloads})[workload.name]
    elsewhere = set(rows.loc[rows["workload"].isin(list(siblings)), "device"]) - {device}
    if keep_twins_apart or not elsewhere or device not in set(rows["device"]):
        return (device,)
    groups = twin_groups(device_similarity(history))
    return (device, *(name for group in groups if device in group for name in group if name in elsewhere))


def from_model(model: Model | Path | str, family: str, replayed: tuple[str, str] | None) -> Knowledge:
    """Use a model that was trained before, or start from nothing if it saw no kernel with these parameters.

    Args:
        model: The model or its file.
        family: Family of the kernels' parameters (see ``Candidate.family``). Empty if the model must know
            the parameters.
        replayed: Names of the replayed workload and device, whose answer the model must not have seen; None
            if kernels are measured.

    Raises:
        CostModelError: The model cannot be read, is no transfer model, or learned from the replayed workload
            or another of its shape on that device.
    """
    loaded = model if isinstance(model, Model) else load_model(model)
    seen = loaded.metadata
    devices = [device.name for device in seen.devices]
    name = str(loaded.path or "model")
    if replayed and replayed[1] in devices and (telling := _find_telling(replayed[0], seen.workloads)):
        raise CostModelError(
            f"A replay of {replayed[0]} on {replayed[1]} must have a model that never saw it, nor others of "
            f"its shape, but {name} learned from {', '.join(telling)}. Train one with "
            f"`costmodel train --hold-out {replayed[0]}`, or name no model."
        )
    if family and f"{family}/" not in seen.columns:
        return Knowledge()
    return Knowledge(
        loaded.model,
        seen.columns,
        {
            "model": f"{name} ({seen.learner})",
            "trained_on": f"{len(seen.workloads)} workloads on {len(devices)} devices",
            "dataset_sha256": seen.dataset_sha256,
        },
    )


def _find_telling(workload: str, learned: Collection[str]) -> list[str]:
    """What of the workloads learned from tells what a replay of one is to find: itself and its siblings."""
    return sorted(set(shape_siblings({workload, *learned})[workload]) & set(learned))


def learner_for(one: Candidate, known: int = 0, n_kernels: int | None = None) -> str:
    """Return the name of the default learner for kernels of one family, or of MetaSchedule.

    Args:
        one: One of the kernels.
        known: Number of kernels of the tuned workload that were measured on any platform.
        n_kernels: Number of kernels to choose from; None if unknown.
    """
    if not one.family:
        return _KNOWN_ELSEWHERE if known else DEFAULT_LEARNER
    if one.source not in SOURCES:
        return "source-mixture"
    # The stack tells kernels that were never measured better than kernel ridge does, which has them there.
    if n_kernels is not None and known >= _ENOUGH * n_kernels:
        return _KNOWN_ELSEWHERE
    by_data = any(getattr(launch, fact) for launch in one.launches for fact in DATA_FACTS)
    return "stack-above-analytic" if by_data else "stack"


def _is_of_family(history: Dataset, family: str) -> NDArray[np.bool_]:
    """``(n,)`` whether each row is of a kernel of this family."""
    return np.array([history.candidates[i].family == family for i in history.rows["candidate"]])


def _describe_left_out(held_out: Collection[str], device: str) -> dict[str, str]:
    """Say on which devices the workload was held out, and which option would include them."""
    twins = sorted(set(held_out) - {device})
    here = ["here"] if device in held_out else []
    near = [f"on a near-twin, {twins[0]}" if len(twins) == 1 else f"on near-twins, {' and '.join(twins)}"]
    places = " and ".join([*here, *(near if twins else [])])
    if not places:
        return {}
    return {"left_out": f"this workload {places}" + (" (--keep-twins-apart learns it)" if twins else "")}


def _describe_rows(rows: "pd.DataFrame", workload: str, device: str) -> str:
    """What was learned from, in a few words."""
    own = rows["workload"] == workload
    others = rows.loc[~own, "workload"].nunique()
    measured = set(rows.loc[own, "device"])
    elsewhere = len(measured - {device})
    places = [
        *(["here"] if device in measured else []),
        *([f"on {elsewhere} other device{'s' if elsewhere > 1 else ''}"] if elsewhere else []),
    ]
    parts = [
        *([f"{others} other workload{'s' if others > 1 else ''}"] if others else []),
        *([f"this one {' and '.join(places)}"] if places else []),
    ]
    return " and ".join(parts)
