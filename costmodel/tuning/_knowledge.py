"""What a search knows before it measures: a model of other kernels and other devices."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from costmodel.dataset import Dataset, device_similarity, shape_siblings, twin_groups
from costmodel.errors import CostModelError
from costmodel.features import extract
from costmodel.kernels import SOURCES
from costmodel.learners import DEFAULT_LEARNER
from costmodel.records import DATA_FACTS, Candidate, Platform, Workload
from costmodel.transfer import Model, TransferModel, load_model, make_model

if TYPE_CHECKING:
    import pandas as pd


# What to learn from to start from nothing.
NOTHING = "nothing"
# What learns of kernels that were measured elsewhere, and the share of them from which on it does.
_KNOWN_ELSEWHERE, _ENOUGH = "known-elsewhere", 0.5


@dataclass(frozen=True)
class Knowledge:
    """A model of other kernels and other devices.

    Attributes:
        model: The model; None to start from nothing.
        columns: Names of the feature columns that it expects; None for those that the kernels have.
        facts: What it is and what it learned from, for the provenance of an answer.
    """

    model: TransferModel | None = None
    columns: tuple[str, ...] | None = None
    facts: Mapping[str, str] = field(default_factory=lambda: {"model": "scratch", "trained_on": "nothing"})


def known_from(  # noqa: PLR0913 (what to learn, from what and how)
    history: Dataset | None,
    workload: Workload,
    device: str,
    family: str,
    *,
    learner: str | None = None,
    seed: int = 0,
    keep_twins_apart: bool | None = None,
    kernels: int | None = None,
) -> Knowledge:
    """What a history tells.

    Args:
        history: What was measured; None to start from nothing.
        workload: What is tuned.
        device: Name of the device that it is tuned on.
        family: What the parameters of its kernels are known by, see ``Candidate.family``.
        learner: What learns. Unless given, ``kernel-ridge`` of MetaSchedule's kernels, ``stack`` of those of
            other sources, and ``source-mixture`` of another suite's: all that tells of these is how they ran
            elsewhere. Where kernels of this workload were measured on any platform, ``known-elsewhere``: of
            MetaSchedule's where any were, and of another source's where half of those to choose from were.
        seed: Seed of its random choices.
        keep_twins_apart: In a replay, whether near-twins are learned from; None on a device, of which
            everything is.
        kernels: How many there are to choose from; None where that is not known.

    Raises:
        CostModelError: No learner has this name.
    """
    if history is None:
        return Knowledge()
    held_out = tuple[str, ...]()
    if keep_twins_apart is not None:
        held_out = held_out_devices(history, workload, device, keep_twins_apart=keep_twins_apart)
    return learn(history, workload, device, learner, seed, family=family, held_out=held_out, kernels=kernels)


def learn(  # noqa: PLR0913 (what to learn, from what and how)
    history: Dataset,
    workload: Workload,
    device: str,
    learner: str | None,
    seed: int,
    *,
    family: str = "",
    held_out: Collection[str] = (),
    kernels: int | None = None,
) -> Knowledge:
    """Train on what a dataset knows of this kernel and of others, on any device.

    Only kernels with the same parameters are learned from: those of MetaSchedule's spaces, or of one family.

    Args:
        history: What was measured.
        workload: What is tuned.
        device: Name of the device that it is tuned on.
        learner: Name of what learns, see ``costmodel.transfer.make_model``; None as in ``known_from``.
        seed: Seed of its random choices.
        family: What the parameters of its kernels are known by, see ``Candidate.family``.
        held_out: Names of devices of which the workload is not learned, nor others of its shape, see
            ``held_out_devices``.
        kernels: How many there are to choose from; None where that is not known.

    Raises:
        CostModelError: No learner has this name.
    """
    rows = history.rows
    siblings = shape_siblings({workload.name, *history.workloads})[workload.name]
    of_held_out = rows["workload"].isin(list(siblings)) & rows["device"].isin(list(held_out))
    learned = _related(history, family) & ~of_held_out.to_numpy()
    left_out = _left_out(set(rows.loc[of_held_out, "device"]), device)
    if not learned.any():
        nothing = Knowledge()
        return replace(nothing, facts={**nothing.facts, **left_out})
    rows = rows[learned]
    own = rows.loc[rows["workload"] == workload.name, "candidate"].nunique()
    chosen = learner or learner_for(history.candidates[rows["candidate"].iloc[0]], own, kernels)
    if of_held_out.any():
        model, columns = _fitted(history, rows, chosen, seed)
    else:
        model, columns = _fitted_to_all(history, family, chosen, seed)
    return Knowledge(
        model,
        columns,
        {
            "model": chosen,
            "trained_on": f"{_described(rows, workload.name, device)} of {history.name}",
            **left_out,
            "dataset_sha256": history.sha256,
        },
    )


@lru_cache(maxsize=4)
def _fitted_to_all(
    history: Dataset, family: str, learner: str, seed: int
) -> tuple[TransferModel, tuple[str, ...]]:
    """A model of all kernels of a family: searches that follow each other, as those of a job, share it."""
    return _fitted(history, history.rows[_related(history, family)], learner, seed)


def _fitted(
    history: Dataset, rows: "pd.DataFrame", learner: str, seed: int
) -> tuple[TransferModel, tuple[str, ...]]:
    """A model of some rows, and the names of its columns."""
    candidates = [history.candidates[i] for i in rows["candidate"]]
    table = extract(candidates, [history.platforms[i] for i in rows["platform"]])
    latency_s = rows["latency_s"].to_numpy(dtype=np.float64)
    model = make_model(learner, table.columns, seed).fit(table.values, latency_s, rows["task"].to_numpy())
    return model, tuple(column.name for column in table.columns)


def best_recorded(history: Dataset, workload: Workload, platforms: Sequence[Platform]) -> list[Candidate]:
    """The fastest kernels of a workload that are recorded on each of these platforms, of every source.

    The mechanism that set SMs apart does not matter.
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
    """Devices whose measurements of the workload tell what a replay of it on a device is to find, by name.

    The device itself and, unless they are kept apart, its near-twins.
    """
    rows = history.rows
    siblings = shape_siblings({workload.name, *history.workloads})[workload.name]
    elsewhere = set(rows.loc[rows["workload"].isin(list(siblings)), "device"]) - {device}
    if keep_twins_apart or not elsewhere or device not in set(rows["device"]):
        return (device,)
    groups = twin_groups(device_similarity(history))
    return (device, *(name for group in groups if device in group for name in group if name in elsewhere))


def from_model(model: Model | Path | str, family: str, replayed: tuple[str, str] | None) -> Knowledge:
    """A model that was trained before; nothing where it saw no kernel with these parameters.

    Args:
        model: The model or its file.
        family: What the parameters of the kernels are known by, see ``Candidate.family``; empty where the
            model must know them.
        replayed: Names of the workload and the device that are replayed, of which it must not know the
            answer; None where kernels are measured.

    Raises:
        CostModelError: It cannot be read, is no transfer model, or learned from what is replayed or from
            another workload of its shape on that device.
    """
    loaded = model if isinstance(model, Model) else load_model(model)
    seen = loaded.metadata
    devices = [device.name for device in seen.devices]
    name = str(loaded.path or "model")
    if replayed and replayed[1] in devices and (telling := _telling(replayed[0], seen.workloads)):
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


def _telling(workload: str, learned: Collection[str]) -> list[str]:
    """What of the workloads learned from tells what a replay of one is to find: itself and its siblings."""
    return sorted(set(shape_siblings({workload, *learned})[workload]) & set(learned))


def learner_for(one: Candidate, known: int = 0, kernels: int | None = None) -> str:
    """What learns from kernels of one family, or of MetaSchedule, where nobody chose.

    Args:
        one: One of them.
        known: Kernels of the workload that is tuned that were measured on any platform.
        kernels: Those to choose from; None where nobody counted them.
    """
    if not one.family:
        return _KNOWN_ELSEWHERE if known else DEFAULT_LEARNER
    if one.source not in SOURCES:
        return "source-mixture"
    # The stack tells kernels that were never measured better than kernel ridge does, which has them there.
    if kernels is not None and known >= _ENOUGH * kernels:
        return _KNOWN_ELSEWHERE
    by_data = any(getattr(launch, fact) for launch in one.launches for fact in DATA_FACTS)
    return "stack-above-analytic" if by_data else "stack"


def _related(history: Dataset, family: str) -> NDArray[np.bool_]:
    """``(n,)`` whether each row is of a kernel of this family."""
    return np.array([history.candidates[i].family == family for i in history.rows["candidate"]])


def _left_out(held_out: Collection[str], device: str) -> dict[str, str]:
    """Where a replay does not learn the workload from, and what would let it."""
    twins = sorted(set(held_out) - {device})
    here = ["here"] if device in held_out else []
    near = [f"on a near-twin, {twins[0]}" if len(twins) == 1 else f"on near-twins, {' and '.join(twins)}"]
    places = " and ".join([*here, *(near if twins else [])])
    if not places:
        return {}
    return {"left_out": f"this workload {places}" + (" (--keep-twins-apart learns it)" if twins else "")}


def _described(rows: "pd.DataFrame", workload: str, device: str) -> str:
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
