"""What users can call refuses wrong arguments at once, in a sentence, whatever they are."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import costmodel
from costmodel import CostModelError, Device, Platform, Workload
from costmodel.tuning import SearchSettings

LONG, NUL, HALF = "x" * 10_000, "a\0b", "\ud800"
WORKLOAD = "matmul-m16-n1024-k1024"
GPU = Device("a GPU", "cuda", "sm_90", 132, 1500.0)
SIZES = {"m": 1, "n": 1, "k": 1}
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
    (costmodel.evaluate, {}, "seed", (-1, 1.5)),
    (costmodel.load_dataset, {}, "dataset", (LONG, NUL, HALF, 5)),
    (costmodel.load_model, {}, "path", (LONG, NUL, HALF, 5, Path("/dev/zero"), Path("/"))),
    (costmodel.load_dispatch_table, {}, "path", (LONG, NUL, HALF, 5, Path("/dev/zero"), Path("/"))),
    (costmodel.hypothetical, {"device": GPU}, "sms", ("32", 1.5, 0, float("nan"))),
    (costmodel.hypothetical, {"sms": 3}, "device", (5, LONG, HALF)),
    (Device, MINE, "sms", ("3", -1, 2**60)),
    (Device, MINE, "clock_mhz", (-1.0, float("inf"), "1", None, 1e-300)),
    (Device, MINE, "kind", ("vulkan", HALF, 5)),
    (Platform, {"device": GPU, "isolation": "whole", "sms_granted": 3}, "sms_requested", ("3", 2**31)),
    (costmodel.collect, {"out": "out"}, "campaign", (LONG, NUL, HALF)),
    (costmodel.CudaFamily.load, {}, "path", (LONG, NUL, HALF)),
)


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
