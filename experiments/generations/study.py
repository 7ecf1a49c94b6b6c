"""Measured calls on several generations of GPUs, and the model of calls that is fitted to them."""

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
import pandas as pd
import xgboost
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.sparse import lil_matrix

sys.path.append(str(Path(__file__).parents[1]))
from kit.trees import complete_trees

from costmodel.arrays import FloatArray
from costmodel.dataset.importers._aiconfigurator import CallTable, find_tables
from costmodel.dataset.sources._base import find_named_device
from costmodel.records._library_calls import CallWork, find_format
from costmodel.records._platform import Device
from costmodel.transfer._call_latency import (
    RATES,
    CallModel,
    LibraryCalls,
    can_be_predicted,
    computing_s,
    coordinates,
    law,
    moving_s,
    spans_of,
)

Positions = NDArray[np.intp]
WORK = tuple(CallWork.__dataclass_fields__)
# Generations that are left out together.
GENERATIONS = {"sm_80": "A100", "sm_90": "H100, H200", "sm_89": "L40S", "sm_120": "RTX PRO"}
_BLACKWELL = "B200, B300, GB200, GB300"
# Of another vendor, which is never learned from.
OTHER_VENDOR = "Arc Pro B60"
# What the law begins with, and how far rates of devices lie from each other.
_START_S = 4e-6
_RATES_STD = np.array([0.3, 0.2, 0.15, 0.15, 0.15])
_SPREAD = 0.2
DEPTH = 6
SETTINGS = {"max_depth": DEPTH, "eta": 0.08, "min_child_weight": 3, "lambda": 3.0, "nthread": 1}
# Of what the law misses, beyond which an error counts by its size and no more by its square.
_ROBUST = {"objective": "reg:pseudohubererror", "huber_slope": 0.15}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what tells which calls are learned from, and how."""
    parser.add_argument("--kinds", nargs="+", help="tables of AIConfigurator")
    parser.add_argument("--each", type=int, help="calls of each GPU")
    parser.add_argument("--trees", type=int, help="trees of a model")
    parser.add_argument("--draws", type=int, help="draws of the calls that are measured")


@dataclass(frozen=True, eq=False)
class Rows:
    """Measured calls of one kind.

    Attributes:
        table: A row a call: ``device``, ``generation``, ``group``, ``latency_s``, sizes, and ``CallWork``.
        sizes: Names of the columns of sizes.
        links: 1e9 bytes a second of the links that bytes go over in place of the memory, by device; empty if
            they go to the memory.
    """

    table: pd.DataFrame
    sizes: tuple[str, ...]
    links: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def load(cls, kind: str, each: int, seed: int = 0) -> Self:
        """Draw calls of each GPU from the installed package, less what cannot be believed.

        The same shapes are drawn on every GPU as far as they are there.
        """
        parts, sizes = _believed(kind, each)
        table = pd.concat([part.sample(min(len(part), each), random_state=seed) for part in parts])
        return cls.of(table, sizes)

    @classmethod
    def of(cls, table: pd.DataFrame, sizes: tuple[str, ...], links: Mapping[str, float] = {}) -> Self:
        """Take the rows of devices of which all is known, and tell their generations."""
        devices = {name: find_named_device(name) for name in table["device"].unique()}
        table = table[table["device"].map({n: can_be_predicted(each) for n, each in devices.items()})]
        table = table.fillna(0.0).reset_index(drop=True)
        generations = {n: GENERATIONS.get(each.architecture, _BLACKWELL) for n, each in devices.items()}
        others = {n: OTHER_VENDOR for n, each in devices.items() if each.kind != "cuda"}
        table["generation"] = table["device"].map(generations | others)
        return cls(table, sizes, links)

    def device(self, name: str) -> Device:
        """Return the device of a name, with the link for its memory where bytes go over that."""
        found = find_named_device(name)
        if name not in self.links:
            return found
        return msgspec.structs.replace(found, bandwidth_gb_s=self.links[name], l2_bytes=1)

    @cached_property
    def devices(self) -> dict[str, Device]:
        """All devices, by name."""
        return {name: self.device(name) for name in self.table["device"].unique()}

    @cached_property
    def y(self) -> FloatArray:
        """``(n,)`` log seconds."""
        return np.log(self.table["latency_s"].to_numpy(np.float64))

    @cached_property
    def bits(self) -> FloatArray:
        """``(n,)`` width of the numbers."""
        types = self.table["group"].str.split("|").str[1]
        return types.map(lambda name: find_format(name).multiplies).to_numpy(np.float64)

    @cached_property
    def logs(self) -> FloatArray:
        """``(2, n)`` logs of ``computing_s`` and ``moving_s``."""
        found = np.empty((2, len(self.table)))
        for positions, calls in self.calls(np.arange(len(self.table))):
            found[:, positions] = np.log([computing_s(calls), moving_s(calls)])
        return found

    def calls(self, positions: Positions) -> Iterator[tuple[Positions, LibraryCalls]]:
        """Yield the calls at these positions, device by device."""
        part = self.table.iloc[positions]
        for name, where in part.groupby("device").indices.items():
            rows = part.iloc[where]
            work = CallWork(**{each: rows[each].to_numpy(np.float64) for each in WORK})
            groups = rows["group"].to_numpy(str)
            yield positions[where], LibraryCalls(groups, work, self.device(str(name)))


@lru_cache(maxsize=1)
def _believed(kind: str, each: int) -> tuple[list[pd.DataFrame], tuple[str, ...]]:
    """Rows that can be believed of some five times as many calls of each GPU, and the columns of sizes."""
    tables: dict[str, list[pd.DataFrame]] = {}
    sizes: tuple[str, ...] = ()
    for path in find_tables([kind]):
        calls = CallTable.read(path)
        calls = calls.part(min(1.0, 5 * each / max(1, len(calls.rows))))
        sizes = max(sizes, calls.sizes, key=len)
        types = calls.rows[list(calls.kind.types)].astype(str).agg("|".join, axis=1)
        rows = (
            calls.rows[list(calls.sizes)]
            .astype(np.float64)
            .assign(
                device=calls.rows["device"].astype(str),
                group=calls.rows["framework"].str.lower() + "|" + types,
                latency_s=calls.latency_s,
                **{name: getattr(calls.work(), name) for name in WORK},
            )
        )
        rows = rows[(calls.rows["reason"] == "").to_numpy() & (calls.latency_s > 0)]
        tables.setdefault(path.parts[-5], []).append(rows)
    return [pd.concat(parts) for parts in tables.values()], sizes


@dataclass(frozen=True, eq=False)
class _Fitted:
    groups: NDArray[Any]
    devices: NDArray[Any]
    law: FloatArray
    rates: FloatArray


def fit_model(rows: Rows, train: Positions, trees: int, seed: int = 0) -> CallModel:
    """Fit law, rates of the devices, and trees; widths of intervals are 1.65 until they are judged."""
    fitted = _fit_law(rows, train, seed)
    X, missed = _columns(rows, train, fitted)
    generation = rows.table["generation"].iloc[train]
    weight = 1.0 / generation.map(generation.value_counts()).to_numpy()
    matrix = xgboost.DMatrix(X, missed, weight=weight / weight.mean(), nthread=1)
    settings = {**SETTINGS, **_ROBUST, "seed": seed, "base_score": 0.0}
    booster = xgboost.train(settings, matrix, num_boost_round=trees)
    generations = rows.table.iloc[train].groupby("group")["generation"].nunique()
    spans = np.array([spans_of(rows.devices[name]) for name in fitted.devices.tolist()])
    return CallModel(
        fitted.groups,
        generations[fitted.groups].to_numpy(np.int64),
        fitted.law,
        fitted.devices,
        fitted.rates,
        np.maximum(fitted.rates.std(axis=1), _RATES_STD / 2),
        np.column_stack([spans.min(axis=0), spans.max(axis=0)]),
        *complete_trees([booster], DEPTH, np.float32),
        measured=np.array([0]),
        widths=np.array([1.65]),
    )


def _fit_law(rows: Rows, train: Positions, seed: int, most: int = 8000) -> _Fitted:
    """Fit the law of each group and the rates of each device, robustly, rates with a normal prior."""
    part = rows.table.iloc[train]
    groups, devices = np.unique(part["group"].to_numpy(str)), np.unique(part["device"].to_numpy(str))
    draw = np.random.default_rng(seed).choice(train, min(len(train), most), replace=False)
    drawn = rows.table.iloc[draw]
    group = np.searchsorted(groups, drawn["group"].to_numpy(str))
    device = np.searchsorted(devices, drawn["device"].to_numpy(str))
    g, d, n = len(groups), len(devices), len(draw)
    begin = np.concatenate([np.full(g, np.log(_START_S)), np.full(g, 0.4), np.full(g, 0.2)])

    def residuals(values: FloatArray) -> FloatArray:
        of_group, rates = values[: 3 * g].reshape(3, g), values[3 * g :].reshape(RATES, d)
        said = law(of_group[:, group], rates[:, device], rows.logs[:, draw], rows.bits[draw])
        return np.concatenate(
            [
                (said - rows.y[draw]) / _SPREAD,
                (3 * rates / _RATES_STD[:, None]).ravel(),
                0.3 * (values[: 3 * g] - begin),
            ]
        )

    pattern = lil_matrix((n + RATES * d + 3 * g, 3 * g + RATES * d), dtype=int)
    for k in range(3):
        pattern[np.arange(n), k * g + group] = 1
    for k in range(RATES):
        pattern[np.arange(n), 3 * g + k * d + device] = 1
    pattern[n + np.arange(RATES * d), 3 * g + np.arange(RATES * d)] = 1
    pattern[n + RATES * d + np.arange(3 * g), np.arange(3 * g)] = 1
    values = least_squares(
        residuals,
        np.concatenate([begin, np.zeros(RATES * d)]),
        jac_sparsity=pattern,
        loss="soft_l1",
        max_nfev=40,
    ).x
    return _Fitted(groups, devices, values[: 3 * g].reshape(3, g), values[3 * g :].reshape(RATES, d))


def _columns(rows: Rows, train: Positions, fitted: _Fitted) -> tuple[FloatArray, FloatArray]:
    """Columns of the trees, and what the law misses, both in the order of ``train``."""
    group = np.searchsorted(fitted.groups, rows.table["group"].iloc[train].to_numpy(str))
    said: list[FloatArray] = []
    columns: list[FloatArray] = []
    order: list[Positions] = []
    place = dict(zip(train.tolist(), range(len(train)), strict=True))
    for positions, calls in rows.calls(train):
        at = np.array([place[each] for each in positions.tolist()])
        of_group = fitted.law[:, group[at]]
        rates = fitted.rates[:, np.searchsorted(fitted.devices, calls.device.name)]
        logs = rows.logs[:, positions]
        said.append(law(of_group, rates, logs, rows.bits[positions]))
        columns.append(np.column_stack([coordinates(calls, of_group, rates, logs), group[at]]))
        order.append(at)
    back = np.argsort(np.concatenate(order))
    return np.concatenate(columns)[back], rows.y[train] - np.concatenate(said)[back]


def known_to(model: CallModel, rows: Rows, positions: Positions) -> Positions:
    """Return the positions of calls whose framework and types the model learned."""
    return positions[np.isin(rows.table["group"].iloc[positions].to_numpy(str), model.groups)]
