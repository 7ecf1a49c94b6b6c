"""The experiment in miniature, on latencies from a formula; nothing is measured, and Triton is not needed."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import pytest
from experiment_folder import found_beside

from costmodel.dataset import CardHeader, Dataset, build_dataset
from costmodel.dataset.table._read import dataset_from_measurements
from costmodel.kernels import CudaSource, KernelSource
from costmodel.kernels.library._source import LibrarySource
from costmodel.kernels.triton._source import TritonSource
from costmodel.learners import Prediction
from costmodel.records import (
    Candidate,
    Config,
    Measurement,
    Outcome,
    Platform,
    RecordStore,
    Workload,
    find_device,
)
from costmodel.records._platform import part_of
from costmodel.transfer import TransferModel

pytestmark = pytest.mark.white_box

FOLDER = Path(__file__).parents[2] / "experiments" / "triton_budgets"
MODULES = ("run", "held_out", "rules", "products", "library", "sharing", "report", "picture", "options")
SMS = (8, 32, 132)
SHAPES = {
    "matmul_float16": [{"m": m, "n": 1024, "k": k} for m, k in ((128, 512), (1024, 1024), (1000, 1024))],
    "softmax_float16": [{"m": m, "n": n} for m, n in ((512, 4096), (4096, 1024), (64, 32768))],
    "softmax_float32": [{"m": 4096, "n": 1024}],
    "fused_moe": [{"t": t, "n": n} for t, n in ((64, 512), (512, 1024), (2048, 1024))],
}
CUDA_SHAPES = {
    "matmul_float16": [{"m": m, "n": 1024, "k": 1024} for m in (64, 256, 1024)],
    "reduction": [{"m": m, "n": 1024} for m in (64, 512, 4096)],
}
HEADER = CardHeader("Formula", "For a test.", "A formula.", "None.", "CC0-1.0", "None.")


@pytest.fixture(autouse=True)
def folder_on_path() -> Iterator[None]:
    """The experiment's modules are found beside each other."""
    with found_beside(FOLDER, MODULES):
        yield


def rehearsed(
    shapes: Mapping[str, Sequence[Mapping[str, int]]] = MappingProxyType(SHAPES),
    source: KernelSource | None = None,
    *,
    configs: int = 12,
    sms: Sequence[int] = SMS,
) -> Iterator[Measurement]:
    """Configs of families, the author's among them, and the library's calls, with times of a formula."""
    rng, source = np.random.default_rng(0), source or TritonSource()
    platforms = [part_of(find_device("NVIDIA H100 80GB HBM3"), each) for each in sms]
    for family in source.families:
        for dims in shapes.get(family.name, ()):
            space = family.space(family.workload(**dims))
            drawn = [space.default, *space.draw(0, configs, rng).configs()]
            candidates = list({c.candidate_id: c for c in map(space.candidate, drawn)}.values())[:configs]
            for platform in platforms:
                times = [formula_s(c, platform) * np.exp(rng.normal(0, 0.02)) for c in candidates]
                yield from (measured(c, platform, s) for c, s in zip(candidates, times, strict=True))
                if isinstance(source, TritonSource):
                    yield from called(space.workload, platform, min(times))


def called(workload: Workload, platform: Platform, best_s: float) -> Iterator[Measurement]:
    """The library: cuBLASLt is as fast as the best kernel where it is told the SMs, others half as fast."""
    if not LibrarySource().makes(workload, "cuda"):
        return
    calls = LibrarySource().space(workload, "cuda")
    there = 0 if platform.isolation == "whole" else platform.sms_granted
    for config in calls.starts:
        far = 1.0 if config.decisions.get("sm_target") == there else 2.0
        yield measured(calls.candidate(config), platform, best_s * far)


def formula_s(candidate: Candidate, platform: Platform) -> float:
    """A roofline with waves: of blocks over SMs, and of warps that hide latency."""
    (launch,) = candidate.launches
    sms = platform.sms_granted
    waves = -(-launch.blocks // sms)
    flops = waves * launch.flops / launch.blocks
    rate = 4e12 if launch.tensor_flops else 0.25e12
    hidden = min(1.0, launch.threads_per_block / 256) * min(1.0, launch.local_bytes / 64 + 0.25)
    traffic = launch.global_load_bytes + launch.global_store_bytes
    return float(2.5e-6 + flops / (rate * hidden) + traffic / min(3.3e12, 60e9 * min(sms, launch.blocks)))


def measured(candidate: Candidate, platform: Platform, latency_s: float) -> Measurement:
    return Measurement(
        candidate=candidate,
        platform=platform,
        outcome=Outcome.OK,
        latencies_s=(float(latency_s),) * 3,
        runs_per_repeat=10,
        measured_at="2026-01-01T00:00:00+00:00",
    )


@pytest.fixture(scope="module")
def records() -> list[Measurement]:
    return list(rehearsed())


@pytest.fixture(scope="module")
def data(records: list[Measurement]) -> Dataset:
    return dataset_from_measurements(records)


@pytest.fixture
def known(data: Dataset) -> Any:
    return import_module("held_out").Known.of(data)


def test_near_twins_are_held_out_together(data: Dataset, known: Any) -> None:
    of = dict(
        zip(data.rows["workload"].astype(str), zip(known.kernel, known.shape, strict=True), strict=True)
    )
    near = ["matmul-m1000-n1024-k1024-float16", "matmul-m1024-n1024-k1024-float16"]
    assert {of[name] for name in near} == {("matmul", "matmul-m1000-n1024-k1024")}
    types = ["softmax-m4096-n1024", "softmax-m4096-n1024-float16"]
    assert {of[name] for name in types} == {("softmax", "softmax-m4096-n1024")}
    assert len(set(known.shape)) == 2 + 3 + 3
    assert set(known.kernel) == {"matmul", "softmax", "fused_moe"}


def test_no_shape_and_no_kernel_is_on_both_sides(known: Any) -> None:
    held_out = import_module("held_out")
    for folds, labels in (
        (held_out.shape_folds(known, 3), known.shape),
        (held_out.kernel_folds(known), known.kernel),
    ):
        assert len(folds) == 3
        tested = np.concatenate([fold.test for fold in folds])
        assert sorted(tested) == list(range(len(labels)))
        for fold in folds:
            assert not set(labels[fold.test]) & set(labels[fold.train])
    first = held_out.shape_folds(known, 3)[0]
    assert set(known.kernel[first.test]) == {"matmul", "softmax", "fused_moe"}  # some of each


def test_what_the_whole_gpus_config_costs_is_counted_by_family(
    data: Dataset, records: list[Measurement]
) -> None:
    held_out, report = import_module("held_out"), import_module("report")
    triton = held_out.of_source(data, "triton")
    known = held_out.Known.of(triton)
    found = held_out.judged(triton, held_out.shape_folds(known, 3), ["ridge"], "shapes")
    gaps = report.budget_gaps(held_out.with_families(found.tasks, triton, known))
    (at_8,) = [row for row in gaps if (row["family"], row["sms"]) == ("triton.fused_moe", 8)]
    by_hand = [excess_of_whole(records, f"triton.fused_moe-{dims}", 8) for dims in fused_moe_names(records)]
    assert at_8["tasks"] == 3
    assert at_8["median"] == pytest.approx(np.median(by_hand))
    assert at_8["p90"] == pytest.approx(np.quantile(by_hand, 0.9))


def fused_moe_names(records: list[Measurement]) -> list[str]:
    names = {r.candidate.workload.name for r in records if r.candidate.workload.kind == "triton.fused_moe"}
    return sorted(name.partition("-")[2] for name in names)


def excess_of_whole(records: list[Measurement], workload: str, sms: int) -> float:
    """Time of the whole GPU's best on a part / best there, less 1."""
    own = [r for r in records if r.candidate.workload.name == workload and r.candidate.source == "triton"]
    at = {
        count: {r.candidate.candidate_id: r.latency_s for r in own if r.platform.sms_granted == count}
        for count in (sms, 132)
    }
    chosen = min(at[132], key=at[132].__getitem__)
    return at[sms][chosen] / min(at[sms].values()) - 1.0


def test_the_authors_default_is_chosen_where_it_was_measured(data: Dataset) -> None:
    held_out, rules = import_module("held_out"), import_module("rules")
    triton = held_out.of_source(data, "triton")
    moe = held_out.only(triton, lambda candidate: candidate.family == "triton.fused_moe")
    assert rules.default_was_measured(moe) == 1.0
    for i in moe.rows["candidate"][rules.agreement(moe) == 1.0]:
        assert moe.candidates[i].config.decisions == author_of(moe.candidates[i])
    without = held_out.only(moe, lambda candidate: candidate.config.decisions != author_of(candidate))
    assert rules.default_was_measured(without) == 0.0
    names = rules.judge_rules(without)["learner"].unique()
    assert list(names) == [rules.DEFAULT, rules.ANALYTIC]


def author_of(candidate: Candidate) -> Mapping[str, Any]:
    return TritonSource().space(candidate.workload, "cuda").default.decisions


def product(**chosen: int) -> Candidate:
    """A config of a product of 1024 x 1024 results."""
    workload = Workload.parse("matmul-m1024-n1024-k1024-float16")
    config = {"BLOCK_K": 64, "GROUP_M": 8, "PROGRAMS": 0, "SPLIT_K": 1, "num_warps": 4, "num_stages": 3}
    return Candidate(workload, "triton-matmul_float16-0123abcd", Config({**config, **chosen}))


def test_the_wave_rule_counts_waves_then_the_last_wave() -> None:
    wave_scores = import_module("products").wave_scores
    large, middle, small = (product(BLOCK_M=m, BLOCK_N=n) for m, n in ((256, 256), (128, 128), (64, 64)))
    # 16, 64 and 256 tiles: on 64 SMs 1, 1 and 4 waves, and the first leaves 48 SMs without a tile.
    assert order(wave_scores([large, middle, small], 64)) == [1, 0, 2]
    # On 16 SMs 1, 4 and 16 waves.
    assert order(wave_scores([large, middle, small], 16)) == [0, 1, 2]
    split = product(BLOCK_M=128, BLOCK_N=128, SPLIT_K=2)
    resident, elsewhere = (product(BLOCK_M=128, BLOCK_N=128, PROGRAMS=each) for each in (32, 16))
    scores = wave_scores([split, middle, resident, elsewhere, small], 32)
    assert scores[1] == scores[2] > scores[4] > max(scores[0], scores[3])
    assert order(wave_scores([middle, product(BLOCK_M=128, BLOCK_N=128, num_stages=4)], 32)) == [1, 0]


def order(scores: np.ndarray) -> list[int]:
    return np.argsort(-scores, kind="stable").tolist()


def test_nvidias_estimates_are_left_out_where_they_are_not_installed(
    data: Dataset, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    products, held_out = import_module("products"), import_module("held_out")
    monkeypatch.setitem(sys.modules, "nvMatmulHeuristics", None)
    judged = products.judge_rules_of_products(held_out.of_source(data, "triton"))
    assert set(judged["way"]) == {products.WAVES}
    assert len(judged) == 3 * len(SMS)  # the matrix products alone
    assert "nvidia-matmul-heuristics is left out" in capsys.readouterr().out


def test_nvidias_estimates_know_tiles() -> None:
    pytest.importorskip("nvMatmulHeuristics")
    estimates = import_module("products").Estimates("NVIDIA H100 80GB HBM3")
    good, tiny = product(BLOCK_M=128, BLOCK_N=128), product(BLOCK_M=16, BLOCK_N=32, num_warps=2)
    assert estimates.seconds(good) < estimates.seconds(tiny)
    elsewhere = product(BLOCK_M=128, BLOCK_N=128, PROGRAMS=16)
    assert order(estimates.scores([elsewhere, tiny, good], 32)) == [2, 1, 0]


def test_the_library_is_told_the_sms_that_there_are(data: Dataset) -> None:
    library = import_module("library")
    excess = library.judge_library(data).groupby("way")["excess"]
    assert excess.min()[library.TOLD] == pytest.approx(0.0)
    assert excess.max()[library.TOLD] == pytest.approx(0.0)
    assert excess.max()[library.FASTEST] == pytest.approx(0.0)
    assert excess.min()[library.PYTORCH] == pytest.approx(1.0)
    assert excess.size()[library.PYTORCH] == (3 + 3 + 1) * len(
        SMS
    )  # operators: a kernel of its own has no call here


def test_other_sources_lend_what_is_like(data: Dataset) -> None:
    sharing, held_out = import_module("sharing"), import_module("held_out")
    cuda = dataset_from_measurements(rehearsed(CUDA_SHAPES, CudaSource(), sms=(8, 16, 132)))
    triton = held_out.of_source(data, "triton")
    unused = part_of(find_device("NVIDIA H100 80GB HBM3"), 16)
    known = Dataset(triton.candidates, (*triton.platforms, unused), triton.measurements)
    lent = sharing.like(cuda, "cuda", known, 5)
    assert set(lent.rows["sms_granted"]) == {8, 132}
    assert set(lent.rows.groupby("workload", observed=True)["candidate"].nunique()) == {5}
    assert set(lent.rows.groupby(["candidate"]).size()) == {2}


def test_shapes_that_are_judged_are_learned_from_in_no_source(
    data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    sharing, held_out = import_module("sharing"), import_module("held_out")
    cuda = dataset_from_measurements(rehearsed(CUDA_SHAPES, CudaSource()))
    seen: list[tuple[set[str], int]] = []
    monkeypatch.setattr(sharing, "make_model", lambda name, columns, seed: Spy(seen))
    triton = held_out.of_source(data, "triton")
    results = sharing.judge_sharing({"triton": triton, "cuda": cuda}, ["triton"], ["ridge"], 3)
    assert set(results["trained"]) == {sharing.OWN, "and cuda"}
    assert set(results["held_out"]) == {"shapes", "kernels"}
    assert len(seen) == 2 * (3 + 3)
    both = "matmul-m1024-n1024-k1024-float16"  # of both sources; in Triton's it is a twin of m = 1000
    for (alone, few), (shared, more) in zip(seen[::2], seen[1::2], strict=True):
        assert more > few
        assert alone < shared
        assert (both in shared) == (both in alone)
    table = sharing.differences(results)
    assert {row["difference"] for row in table if row["trained"] == sharing.OWN} == {0.0}


class Spy(TransferModel):
    """Notes of which workloads it learned, and of how many rows; knows nothing."""

    def __init__(self, seen: list[tuple[set[str], int]]) -> None:
        self.seen = seen

    def fit(self, X: Any, y: Any, task_ids: Any) -> Self:
        self.seen.append(({str(task).partition("@")[0] for task in task_ids}, len(y)))
        return self

    def predict(self, X: Any) -> Prediction:
        return Prediction(np.zeros(len(X)))

    def adapt(self, X: Any, y: Any) -> Self:
        return self


def test_every_part_comes_out(records: list[Measurement], tmp_path: Path) -> None:
    run = import_module("run")
    for name, rows in (("triton", records), ("cuda", rehearsed(CUDA_SHAPES, CudaSource()))):
        with RecordStore(tmp_path / f"{name}.jsonl") as store:
            store.append(list(rows))
        build_dataset([tmp_path / f"{name}.jsonl"], tmp_path / name, header=HEADER)
    options = [
        *("--dataset", str(tmp_path / "triton"), "--others", f"cuda={tmp_path / 'cuda'}"),
        *("--learner", "nearest-task", "--timed-learner", "kernel-ridge", "--best", "kernel-ridge"),
        *("--folds", "3", "--shots", "2", "4", "--most", "5"),
        *("--json", str(tmp_path / "r.json"), "--plot", str(tmp_path / "p.png")),
    ]
    run.main(options)
    found = json.loads((tmp_path / "r.json").read_text())
    assert [*found, "picture"] == list(run.PARTS)
    assert not missing(found)
    assert (tmp_path / "p.png").stat().st_size > 10_000
    run.main([*options, "--only", "library"])  # the other parts stay
    assert json.loads((tmp_path / "r.json").read_text()) == found
    ways = {row["way"]: row for row in found["unseen-shapes"]["all"]}
    assert ways["kernel-ridge"]["mean"] > ways["random"]["mean"]
    assert ways["random"]["tasks"] == 10 * len(SMS)
    assert {row["sms"] for row in found["whole-gpu"]} == {8, 32, "all"}
    (moe,) = [row for row in found["grouped-products"] if row["way"] == "kernel-ridge"]
    assert (moe["tasks"], moe["of"]) == (9, 12)
    timed = {(row["way"], row["sms"]): row["median"] for row in found["few-timed"]["timed"]}
    assert timed["kernel-ridge", "all"] <= timed["random", "all"]
    assert found["few-timed"]["exhaustive"][0]["configs"] == 12


def missing(value: Any) -> bool:
    """Whether a number is missing anywhere."""
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return value is None or any(map(missing, values))
