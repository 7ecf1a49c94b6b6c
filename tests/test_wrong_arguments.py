"""What users can call refuses wrong arguments at once, in a sentence, whatever they are."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from optuna.distributions import CategoricalDistribution

import costmodel
from costmodel import CostModelError, Device, Platform, Workload
from costmodel.collector import ReplayRunner, ServiceWatch, campaign_status, find_campaign
from costmodel.dataset import CardHeader, examine, export_dataset, merge_datasets
from costmodel.records import Candidate, Config, RecordStore, forget_records, read_records
from costmodel.search import DeclaredSpace, Pool
from costmodel.serving import check_tables, load_serving_tables, serve_tables
from costmodel.testing import gpu_landscape
from costmodel.tracking import MlflowTracker
from costmodel.tuning import Goal, SearchSettings, check_kernels, list_kernels

LONG, NUL, HALF = "x" * 10_000, "a\0b", "\ud800"
WORKLOAD = "matmul-m16-n1024-k1024"
GPU = Device("a GPU", "cuda", "sm_90", 132, 1500.0)
SIZES = {"m": 1, "n": 1, "k": 1}
HEADER = CardHeader(title="t", summary="s", method="m", limits="l", licence="CC-BY-4.0", citation="c")
KERNEL, HERE = Candidate(Workload.parse(WORKLOAD), "a", Config({"a": 1})), Platform(GPU, "whole", 132, 132)
TILE = CategoricalDistribution([8, 16])
SPACE: dict[str, Any] = {"name": "a", "parameters": {"a": TILE}}
MINE = {"name": "a", "kind": "cuda", "architecture": "", "sms": 3, "clock_mhz": 1.0}

# By what is called with what else: an argument, and what it must not be.
WRONG: tuple[tuple[Callable[..., Any], dict[str, Any], str, tuple[Any, ...]], ...] = (
    (SearchSettings, {}, "seed", (-1, 1.5, "1", 2**40)),
    (costmodel.tune, {"workload": WORKLOAD}, "sms", ("32", 1.5, [32, "a"], -3, 10**30)),
    (costmodel.tune, {"workload": WORKLOAD}, "trials", (1.5, "4", True, 0)),
    (costmodel.tune, {}, "workload", (LONG, NUL, HALF, "")),
    (
        Workload.parse,
        {},
        "name",
        (LONG, NUL, HALF, "", 5, None, "matmul-m" + "9" * 5000, "matmul-m-1"),
    ),
    (Workload, {"kind": "matmul"}, "dims", (SIZES | {"m": -1}, SIZES | {"m": "1"}, SIZES | {"m": 2**63})),
    (costmodel.train, {}, "seed", (-1, 1.5)),
    (costmodel.train, {"dataset": "sm-budgets"}, "learner", (LONG, HALF, "none")),
    (costmodel.evaluate, {}, "seed", (-1, 1.5, HALF, [])),
    (Goal, {"sms": (8, 16)}, "weights", ("12", [None], [float("nan")], object())),
    (Goal, {"sms": (8, 16)}, "objective", (5, HALF, [1])),
    (costmodel.load_dataset, {}, "dataset", (LONG, NUL, HALF, 5)),
    (costmodel.load_model, {}, "path", (LONG, NUL, HALF, 5, Path("/dev/zero"), Path("/"))),
    (costmodel.load_dispatch_table, {}, "path", (LONG, NUL, HALF, 5, Path("/dev/zero"), Path("/"))),
    (costmodel.hypothetical, {"device": GPU}, "sms", ("32", 1.5, 0, float("nan"))),
    (costmodel.hypothetical, {"sms": 3}, "device", (5, LONG, HALF)),
    (Device, MINE, "sms", ("3", -1, 2**60)),
    (Device, MINE, "clock_mhz", (-1.0, float("inf"), "1", None, 1e-300)),
    (Device, MINE, "kind", ("vulkan", HALF, 5)),
    (Platform, {"device": GPU, "isolation": "whole", "sms_granted": 3}, "sms_requested", ("3", 2**31)),
    (costmodel.collect, {"out": "out"}, "campaign", (LONG, NUL, HALF, 5, None)),
    (find_campaign, {}, "campaign", (LONG, NUL, HALF, 5, None)),
    (campaign_status, {}, "out", (NUL, HALF, 5, None)),
    (check_kernels, {}, "path", (LONG, NUL, HALF, 5, None)),
    (ServiceWatch, {"latencies": "a"}, "window", (298, None, "x", 1.5)),
    (ServiceWatch, {"latencies": "a"}, "may_lose", (0.0, None, "x", float("nan"))),
    (MlflowTracker, {}, "uri", (5, HALF, "ftp://x")),
    (costmodel.CudaFamily.load, {}, "path", (LONG, NUL, HALF)),
    (Config, {}, "decisions", ({1: 1}, {"a": None})),
    (examine, {}, "files", (5, [5], NUL)),
    (merge_datasets, {"out": "out", "header": HEADER}, "datasets", (5, [5], NUL, Path("/dev/zero"))),
    (merge_datasets, {"datasets": "h100-sm-budgets", "header": HEADER}, "out", (5, NUL, HALF)),
    (costmodel.load_dataset, {}, "workloads", (5, [5], b"x", [], "matmul")),
    (costmodel.load_dataset, {}, "devices", (5, [5], b"x", [])),
    (export_dataset, {"out": "out", "dataset": None}, "format_name", (5, [], "none")),
    (export_dataset, {"out": "out", "dataset": None, "format_name": "t4"}, "workload", (5, [5], "none")),
    (forget_records, {"kernel": "a"}, "store", (5, None, NUL, HALF, "none.jsonl")),
    (forget_records, {"store": "none.jsonl"}, "kernel", (5, [], HALF)),
    (forget_records, {"store": "none.jsonl"}, "config", (5, "tile=3")),
    (forget_records, {"store": "none.jsonl"}, "older_than", (5, "1 day")),
    (RecordStore, {}, "path", (5, None, NUL, HALF)),
    (lambda path: list(read_records(path)), {}, "path", (5, None, NUL, HALF)),
    (ReplayRunner, {}, "measurements", (5, None, [5], "x", {}, object())),
    (ReplayRunner, {"measurements": []}, "machine_code", (5, "x", [])),
    (Pool, {}, "candidates", (5, None, [5], "x", {}, [])),
    (lambda platform: Pool([KERNEL], platform), {}, "platform", (5, None, "x")),
    (lambda columns: Pool([KERNEL], HERE, columns=columns), {}, "columns", (5, [5])),
    (DeclaredSpace, SPACE, "name", (5, None, LONG)),
    (DeclaredSpace, SPACE, "parameters", (5, None, [5], "x", {}, {"a": 5}, {5: TILE})),
    (DeclaredSpace, SPACE, "when", (5, "x", {"a": 5}, {"a": ("a", 5)}, {"a": (5, [1])})),
    (DeclaredSpace, SPACE, "constraints", (5, None, [5], "x", len)),
    (DeclaredSpace, SPACE, "platforms", (5, None, [5], "x", GPU)),
    (list_kernels, {}, "families", (5, [5], NUL)),
    (serve_tables, {"model": "none", "device": "H200"}, "triton", (5, "latest", b"3.6.0")),
    (serve_tables, {"model": "none", "device": "H200"}, "tokens", (1.5, [0], "8")),
    (load_serving_tables, {}, "folder", (5, None, NUL, HALF)),
    (check_tables, {}, "folder", (5, None, NUL, HALF)),
    (lambda **given: _model().predict(**given), {}, "workload", (5, None, [5], ["matmul-m1-n1-k1"], [])),
    (lambda **given: _model().predict(WORKLOAD, **given), {}, "kernels", (5, [5], NUL)),
    (lambda **given: _model().predict(WORKLOAD, **given), {}, "device", (5, [], HALF)),
    (lambda path: _model().save(path), {}, "path", (5, None, NUL, HALF)),
)


@cache
def _model() -> costmodel.Model:
    return costmodel.train(gpu_landscape(configs_per_workload=2, sms=(8, 132)), "consensus")


@pytest.mark.parametrize(
    ("call", "arguments"),
    [(call, {**others, name: value}) for call, others, name, values in WRONG for value in values],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_a_wrong_argument_is_refused_in_a_sentence(
    call: Callable[..., Any], arguments: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CostModelError) as caught:
        call(**arguments)
    assert str(caught.value)
    assert not list(tmp_path.iterdir())
