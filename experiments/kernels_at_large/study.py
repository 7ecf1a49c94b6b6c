"""Rows to learn from, relative to their tasks, and trees that are boosted on them, for NumPy to walk."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import xgboost
from numpy.typing import NDArray

sys.path.append(str(Path(__file__).parents[1]))
from kit.trees import complete_trees

from costmodel.arrays import FloatArray, Positions
from costmodel.dataset import Dataset, load_dataset
from costmodel.dataset._read_facts import load_read_facts
from costmodel.features._ir import READ_COLUMNS, extract_read
from costmodel.kernels._read_facts import READ_FACTS, ReadFacts
from costmodel.kernels.triton._source import load_families
from costmodel.transfer._read_ranker import ReadRanker, relative_columns

FAMILIES = Path(__file__).with_name("families")
ELSEWHERE = "families of costmodel"  # the kind of kernels that no folder here holds
SETTINGS: dict[str, Any] = {
    "tree_method": "hist",
    "max_depth": 6,
    "eta": 0.1,
    "subsample": 0.5,
    "colsample_bynode": 0.33,
    "min_child_weight": 1.0,
    "nthread": 1,
}
# Facts of the second dialect begin so, or are among these; the launch tells the facts named last.
_OF_LAYOUTS = (
    *("thread_", "is_group_product", "shared_", "conversions", "converted_elements", "barriers", "shuffles"),
    *("cross_warp_reductions", "copies_ahead", "access_bytes", "replicated_load_bytes"),
    *("load_request_sectors", "store_request_sectors", "request_lines", "bank_turns", "register_limit"),
)
_OF_LAUNCH = ("programs", "threads")
TIERS: Mapping[str, Sequence[str]] = {
    "launch": _OF_LAUNCH,
    "ttir": [name for name in READ_FACTS if not name.startswith(_OF_LAYOUTS)],
    "ttgir": READ_FACTS,
    "compiled": READ_FACTS,
}


@dataclass(frozen=True)
class Rows:
    """Measurements of kernels on parts of a device.

    Attributes:
        table: Rows of a dataset with the ``kernel_kind`` and ``config`` of each.
        X: ``(n, c)`` what was read, see ``relative_columns``.
        y: ``(n,)`` log of the latency less the mean of the task; NaN for failures.
    """

    table: pd.DataFrame
    X: NDArray[np.float16]
    y: FloatArray

    @classmethod
    def load(cls, dataset: str, device: str, tier: str = "ttgir", source: str = "triton") -> Self:
        """Load a source's kernels of a dataset that has facts, with the columns that a tier of them tells."""
        data = load_dataset(dataset)
        is_here = (data.rows["device"] == device) & _is_of(source, data)
        table = data.rows[is_here].reset_index(drop=True)
        facts = {name: _only(each, TIERS[tier]) for name, each in load_read_facts(data).items()}
        ids = [each.candidate_id for each in data.candidates]
        X = extract_read(
            [facts.get(ids[i]) for i in table["candidate"]], [data.platforms[i] for i in table["platform"]]
        ).values
        if tier == "compiled":
            X = np.column_stack([X, _compiled(data)[table["candidate"].to_numpy()]])
        with np.errstate(divide="ignore"):
            log_s = np.log(table["latency_s"].where(np.isfinite(table["latency_s"])).to_numpy())
        task = table["task"].to_numpy()
        y = log_s - pd.Series(log_s).groupby(task).transform("mean").to_numpy()
        relative = np.empty(X.shape, np.float16)
        for at in pd.Series(task).groupby(task).indices.values():
            relative[at] = relative_columns(X[at])
        kinds = kernel_kinds()
        table = table.assign(
            kernel_kind=[kinds.get(each, ELSEWHERE) for each in table["kind"]],
            config=[data.candidates[i].config.config_id for i in table["candidate"]],
        )
        return cls(table, relative, y)

    @classmethod
    def both(cls, parts: Sequence["Rows"]) -> "Rows":
        """Put rows of several datasets together, whose candidates are told apart."""
        starts = np.cumsum([0, *(part.table["candidate"].max() + 1 for part in parts)])
        tables = [
            part.table.assign(candidate=part.table["candidate"] + start)
            for part, start in zip(parts, starts[:-1], strict=True)
        ]
        return cls(
            pd.concat(tables, ignore_index=True),
            np.concatenate([part.X for part in parts]),
            np.concatenate([part.y for part in parts]),
        )

    @property
    def kinds(self) -> list[str]:
        """Kinds of kernels that this folder holds."""
        return sorted(set(self.table["kernel_kind"]) - {ELSEWHERE})

    def of_kind(self, kind: str) -> Positions:
        """Positions of the rows of a kind."""
        return np.flatnonzero(self.table["kernel_kind"] == kind)

    def not_of_kind(self, kind: str) -> Positions:
        """Positions of all other rows."""
        return np.flatnonzero(self.table["kernel_kind"] != kind)


def boost(rows: Rows, train: Positions, seeds: int, trees: int) -> list[xgboost.Booster]:
    """Boost trees for each seed on rows that ran and were read; each kernel weighs the same."""
    train = train[np.isfinite(rows.y[train]) & ~np.isnan(rows.X[train, 0])]
    kernel = rows.table["kind"].iloc[train]
    weight = 1.0 / kernel.map(kernel.value_counts()).to_numpy()
    matrix = xgboost.QuantileDMatrix(
        rows.X[train].astype(np.float32), rows.y[train], weight=weight / weight.mean(), nthread=1
    )
    settings = {**SETTINGS, "base_score": 0.0}
    return [xgboost.train({**settings, "seed": seed}, matrix, num_boost_round=trees) for seed in range(seeds)]


def ranker_of(boosters: Sequence[xgboost.Booster]) -> ReadRanker:
    """Return the mean of several boosters."""
    trees = complete_trees(boosters, SETTINGS["max_depth"])
    return ReadRanker(np.array([column.name for column in READ_COLUMNS]), *trees)


def kernel_kinds() -> dict[str, str]:
    """The folder of each kernel here, by the kind of its workloads."""
    return {
        f"triton.{family.name}": file.parent.name
        for file in sorted(FAMILIES.glob("*/family.py"))
        for family in load_families(str(file.parent))
    }


def _is_of(source: str, data: Dataset) -> NDArray[np.bool_]:
    is_of_source = np.array([each.source == source for each in data.candidates])
    return is_of_source[data.rows["candidate"].to_numpy()]


def _compiled(data: Dataset) -> FloatArray:
    """``(candidates, 2)`` logarithms of the registers and of the stack of each kernel; NaN if it has none."""
    found = np.full((len(data.candidates), 2), np.nan)
    known = data.measurements[["candidate", "resources"]].drop_duplicates("candidate")
    for candidate, resources in zip(known["candidate"], known["resources"].tolist(), strict=True):
        if resources:
            told = resources[0]
            found[candidate] = np.log2([told["registers_per_thread"], 1 + told["stack_bytes"]])
    return found


def _only(facts: ReadFacts, names: Sequence[str]) -> ReadFacts:
    return ReadFacts(**{name: getattr(facts, name) for name in names})
