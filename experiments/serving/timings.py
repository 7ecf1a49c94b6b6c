"""Timings of tiled products, task by task: a problem on so many SMs of a GPU."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from attention import ATTENTION, PARAMETERS, attention_columns
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.features._extract import extract
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._platform import Device
from costmodel.records._workload import Workload
from costmodel.serving._terms import TiledProduct, product_of, row_columns

OURS = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "num_warps", "num_stages")
_TOKENS = "tm"  # dims that say how many tokens there are


@dataclass(frozen=True)
class Task:
    """Configs of a problem on so many SMs of a GPU.

    Attributes:
        workload: The problem.
        device: The GPU.
        sms: SMs that were granted.
        rows: ``(n, 6)`` configs, as ``OURS`` has them.
        seconds: ``(n,)`` what they took; infinite where they failed.
        X: ``(n, c)`` their columns.
        base: ``(n,)`` log of the seconds that follow from them without learning; zeros where nothing does.
    """

    workload: Workload
    device: Device
    sms: int
    rows: NDArray[np.int64]
    seconds: FloatArray
    X: FloatArray
    base: FloatArray

    @property
    def problem(self) -> str:
        """The problem whatever the number of tokens: what a model that was never seen has."""
        sizes = {name: size for name, size in self.workload.dims.items() if name not in _TOKENS}
        return f"{self.workload.kind} {sizes}"


def list_tasks(measurements: Iterable[Measurement]) -> list[Task]:
    """Return the tasks of tiled products; a config that was timed twice counts with its first time."""
    found: dict[tuple[str, str, int], dict[tuple[int, ...], tuple[Measurement, float]]] = {}
    for each in measurements:
        row = _row(each.candidate.config.decisions)
        if row is None or each.visit or _product(each.candidate.workload) is None:
            continue
        key = each.candidate.workload.name, each.platform.device.name, each.platform.sms_granted
        seconds = each.latency_s if each.outcome is Outcome.OK else np.inf
        found.setdefault(key, {}).setdefault(row, (each, seconds))
    return [_task(timed) for timed in found.values()]


def _task(timed: Mapping[tuple[int, ...], tuple[Measurement, float]]) -> Task:
    one, _ = next(iter(timed.values()))
    workload, platform = one.candidate.workload, one.platform
    product = _product(workload)
    assert product
    rows = np.array(list(timed))
    X = row_columns(product, rows, platform.sms_granted, platform.device)
    seconds = np.array([time for _, time in timed.values()])
    return Task(workload, platform.device, platform.sms_granted, rows, seconds, X, X[:, 0] * np.log(2))


def list_other_tasks(measurements: Iterable[Measurement], kinds: Iterable[str]) -> list[Task]:
    """Return the tasks of kernels of other kinds, by the columns that all learners of the package see."""
    found: dict[tuple[str, str, int], dict[str, Measurement]] = {}
    for each in measurements:
        if each.candidate.workload.kind in kinds and not each.visit:
            key = each.candidate.workload.name, each.platform.device.name, each.platform.sms_granted
            found.setdefault(key, {}).setdefault(each.candidate.candidate_id, each)
    return [_other_task(list(timed.values())) for timed in found.values()]


def _other_task(timed: list[Measurement]) -> Task:
    platform, candidates = timed[0].platform, [each.candidate for each in timed]
    seconds = np.array([each.latency_s if each.outcome is Outcome.OK else np.inf for each in timed])
    workload, device, sms = candidates[0].workload, platform.device, platform.sms_granted
    names = sorted(candidates[0].config.decisions)
    rows = np.array([[int(str(each.config.decisions[name])) for name in names] for each in candidates])
    if workload.kind in ATTENTION:
        decisions = [each.config.decisions for each in candidates]
        told = np.array([[int(str(each.get(name, 0))) for name in PARAMETERS] for each in decisions])
        X = attention_columns(workload, told, sms, device)
        return Task(workload, device, sms, rows, seconds, X, X[:, 0] * np.log(2))
    X = extract(candidates, [platform] * len(candidates)).values
    return Task(workload, device, sms, rows, seconds, X, np.zeros(len(timed)))


def _row(decisions: Mapping[str, object]) -> tuple[int, ...] | None:
    """The parameters of a config; None of one that splits sums or walks over tiles."""
    if decisions.get("SPLIT_K", 1) != 1 or decisions.get("PROGRAMS", 0):
        return None
    if not set(OURS) <= set(decisions):
        return None
    return tuple(int(str(decisions[name])) for name in OURS)


_products: dict[str, TiledProduct | None] = {}


def _product(workload: Workload) -> TiledProduct | None:
    if workload.name not in _products:
        _products[workload.name] = _matmul(workload) or product_of(workload)
    return _products[workload.name]


def _matmul(workload: Workload) -> TiledProduct | None:
    """A product without experts, which is one with one expert."""
    if workload.kind != "matmul" or workload.dtype != "float16":
        return None
    dims = workload.dims
    return TiledProduct(np.array([dims["m"]]), dims["n"], dims["k"], 2.0, 2.0)
