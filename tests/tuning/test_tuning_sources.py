"""Searches over several sources, on recorded kernels of CUDA families and of the library."""

import sys

import pytest

import costmodel
from costmodel.dataset import load_dataset
from costmodel.errors import CostModelError
from costmodel.tuning._knowledge import best_recorded
from costmodel.tuning._subject import subject_of

DATA = "cuda-sm-budgets"
MATMUL = "matmul-m512-n512-k512"


def tuned(workload: str, **settings):
    usual = {"sms": 8, "trials": 4, "learn_from": "nothing", "replay": DATA, "device": "H100"}
    return costmodel.tune(workload, **{**usual, **settings})


def test_all_recorded_sources_are_searched_and_compared() -> None:
    result = tuned(MATMUL)
    sources = [trial.candidate.source for trial in result.search.trials]
    assert sources == ["cuda"] * 4 + ["library"] * 4
    assert [trial.number for trial in result.search.trials] == list(range(8))
    best = {s: min(t.latency_s[0] for t in result.search.trials if t.candidate.source == s) for s in sources}
    assert result.best.latency_s[0] == min(best.values())
    ratio = max(best.values()) / min(best.values())
    (told,) = [sentence for sentence in result.answer if "each source" in sentence]
    assert f"{max(best, key=best.get)} {ratio:.2f}x" in told
    assert "source" in result.tables[0].header
    assert result.search.provenance.n_measurements == 8
    assert {fact.split()[0] for fact in result.search.provenance.knowledge} == {"cuda", "library"}


def test_one_source_is_searched_where_that_is_asked() -> None:
    result = tuned(MATMUL, source="library")
    assert {trial.candidate.source for trial in result.search.trials} == {"library"}
    assert "source" not in result.tables[0].header
    assert not [sentence for sentence in result.answer if "each source" in sentence]


def test_several_budgets_are_served_by_kernels_of_any_source() -> None:
    result = tuned("matmul-m128-n2048-k2048-float16", sms=[8, 132], portfolio=2, trials=12)
    table = result.dispatch_table
    for i, sms in enumerate(result.search.sms):
        chosen = table.kernel_for(sms)
        (trial,) = [t for t in result.search.trials if t.candidate == chosen]
        assert trial.latency_s[i] == pytest.approx(result.search.latency_s[:, i].min())


def test_a_family_learns_from_itself_alone() -> None:
    result = tuned("cuda.nbody-n4096", learn_from=DATA, trials=2)
    trained = result.search.provenance.knowledge["trained_on"]
    assert trained.startswith("1 other workload")  # the other size; not matrix products, not other families
    assert result.search.provenance.knowledge["model"] == "source-mixture"


def test_a_source_that_was_not_recorded_is_named_with_those_that_were() -> None:
    with pytest.raises(CostModelError, match=r"were recorded \(cuda, library\), but got metaschedule"):
        tuned(MATMUL, source="metaschedule")
    with pytest.raises(CostModelError, match="must be one of metaschedule, cuda, triton, library or all"):
        tuned(MATMUL, source="cutlass")


def test_dims_are_of_families_alone(tmp_path) -> None:
    with pytest.raises(CostModelError, match="Dims must be given of a family of kernels"):
        subject_of(MATMUL, {"m": 64}, None)
    family = costmodel.CudaFamily.load("costmodel/kernels/cuda/families/transpose")
    subject = subject_of(family.folder, {"m": 64}, None)
    assert subject.name == family.workload(m=64).name
    assert [source.name for source in subject.sources("cuda")] == ["cuda"]
    with pytest.raises(CostModelError, match="can make for cpu"):
        subject.sources("cpu")


def test_the_fastest_recorded_kernels_of_each_source_come_first() -> None:
    data = load_dataset(DATA)
    rows = data.rows
    h100 = next(p for p in data.platforms if "H100" in p.device.name and p.sms_granted == 8)
    workload = next(
        w for w in {c.workload.name: c.workload for c in data.candidates}.values() if w.name == MATMUL
    )
    here = rows[
        (rows["workload"] == MATMUL) & (rows["device"] == h100.device.name) & (rows["sms_granted"] == 8)
    ]
    found = best_recorded(data, workload, [h100])
    assert {candidate.source for candidate in found} == {"cuda", "library"}
    for candidate in found:
        own = [data.candidates[i].source == candidate.source for i in here["candidate"]]
        fastest = here[own].sort_values("latency_s").iloc[0]
        assert data.candidates[fastest["candidate"]] == candidate


def test_what_is_known_to_be_good_is_measured_first() -> None:
    from costmodel.collector import ReplayRunner
    from costmodel.search import ModelSampler
    from costmodel.search import tune as search

    runner = ReplayRunner(
        m for m in load_dataset(DATA).to_measurements(MATMUL) if "H100" in m.platform.device.name
    )
    space = runner.space(MATMUL, [runner.platform(8)], source="library")
    first = [candidate.config for candidate in space.candidates[5:8]]
    result = search(runner, ModelSampler(space, seed=0), 5, first=first)
    assert [trial.candidate.config for trial in result.trials[:3]] == first
    assert len({trial.candidate.candidate_id for trial in result.trials}) == 5


def test_without_pytorch_the_library_is_left_out_and_that_is_said(monkeypatch) -> None:
    pytest.importorskip("tvm")
    monkeypatch.setitem(sys.modules, "torch", None)
    settings = {"sms": 1, "trials": 1, "runner": "cpu", "learn_from": "nothing", "screened": 50}
    result = costmodel.tune("softmax-m8-n8", source="all", **settings)
    assert {trial.candidate.source for trial in result.search.trials} == {"metaschedule"}
    (said,) = [sentence for sentence in result.answer if "left out" in sentence]
    assert said.startswith("library was left out: Measuring the library on cpu needs an optional package")
    with pytest.raises(CostModelError, match=r"\[torch\]"):
        costmodel.tune("softmax-m8-n8", source="library", **settings)
