"""The judge of calls on generations of GPUs, on calls that the law itself makes up."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from experiment_folder import found_beside

from costmodel.records import find_device
from costmodel.records._library_calls import CALL_KINDS
from costmodel.transfer._call_latency import LibraryCalls, computing_s, law, moving_s

pytest.importorskip("xgboost")
pytestmark = pytest.mark.white_box

FOLDER = Path(__file__).parents[2] / "experiments" / "generations"
DEVICES = {"NVIDIA A100-SXM4-80GB": "A100", "NVIDIA H100 80GB HBM3": "H100", "NVIDIA L40S": "L40S"}


@pytest.fixture(scope="module")
def judge() -> Iterator[ModuleType]:
    with found_beside(FOLDER, ["study", "collectives", "judge"]):
        import judge

        yield judge


def made_up(judge: ModuleType, each: int = 150) -> object:
    """Rows of the law, devices off by their rates and calls by 3 %; the calls are the same everywhere."""
    rng, parts = np.random.default_rng(0), []
    for name, generation in DEVICES.items():
        drawn = np.random.default_rng(9)
        m, n, k = np.ceil(2 ** drawn.uniform(4, 13, (3, each)))
        sizes = {"m": m, "n": n, "k": k}
        groups = np.array(["vllm|bfloat16", "sglang|bfloat16"] * (each // 2))
        work = CALL_KINDS["gemm"].work(sizes, ("bfloat16",))
        calls = LibraryCalls(groups, work, find_device(name))
        of_group = np.log([[4e-6], [1.3], [1.2]]) * np.ones(each)
        rates = 0.1 * rng.normal(size=5)
        logs = np.log([computing_s(calls), moving_s(calls)])
        latency = np.exp(law(of_group, rates, logs, calls.bits) + 0.03 * rng.normal(size=each))
        told = {field: getattr(work, field) for field in work.__dataclass_fields__}
        columns = {"device": name, "generation": generation, "group": groups, "latency_s": latency}
        parts.append(pd.DataFrame(columns | sizes | told))
    return judge.Rows(pd.concat(parts, ignore_index=True), ("m", "n", "k"))


def test_a_generation_that_is_left_out_is_predicted_and_rules_are_not_better(
    judge: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = made_up(judge)
    monkeypatch.setattr(judge.Rows, "load", lambda *_: rows)
    found = pd.DataFrame(list(judge.judge_kind("gemm", 150, 5, 2)))
    assert set(found["generation"]) == set(DEVICES.values())
    errors = found.groupby("method")["error"].median()
    assert errors["model, 0 measured"] < 0.15
    assert errors["model, 32 measured"] < errors["model, 0 measured"]
    assert errors["model, 0 measured"] < errors["roofline"]
    covered = found[found["method"] == "model, 32 measured"]["covered"]
    assert covered.mean() > 0.8


def test_bandwidth_scales_what_the_nearest_gpu_takes(judge: ModuleType) -> None:
    rows = made_up(judge)
    generation = rows.table["generation"].to_numpy(str)
    train, test = np.flatnonzero(generation != "L40S"), np.flatnonzero(generation == "L40S")
    said = dict(judge._baselines(rows, train, test))
    ratio = find_device("NVIDIA A100-SXM4-80GB").bandwidth_gb_s / find_device("NVIDIA L40S").bandwidth_gb_s
    known = ~np.isnan(said["nearest GPU"])
    assert known.any()
    moved = said["nearest GPU by bandwidth"][known] - said["nearest GPU"][known]
    assert moved == pytest.approx(np.log(ratio))


def test_collectives_move_what_a_ring_moves_over_the_link(judge: ModuleType) -> None:
    """Over four GPUs, 3/4 of the bytes, and twice as many where sums are gathered again."""
    import collectives

    rows = pd.DataFrame({"num_gpus": [4, 4], "message_size": [1000, 1000]})
    told = collectives._work(rows.assign(group=["NCCL|half|all_gather", "NCCL|int8|all_reduce"]))
    assert told["load_bytes"].tolist() == [1500.0, 1500.0]


def test_the_link_takes_the_place_of_the_memory(judge: ModuleType) -> None:
    rows = judge.Rows(made_up(judge).table, ("m", "n", "k"), {"NVIDIA L40S": 32.0})
    linked, other = rows.device("NVIDIA L40S"), rows.device("NVIDIA A100-SXM4-80GB")
    assert linked.bandwidth_gb_s == 32.0
    assert other == find_device("NVIDIA A100-SXM4-80GB")
    calls = next(each for _, each in rows.calls(np.arange(len(rows.table))) if each.device == linked)
    moved = calls.work.load_bytes + calls.work.store_bytes
    assert moving_s(calls) == pytest.approx(moved / 32e9, rel=0.01)
