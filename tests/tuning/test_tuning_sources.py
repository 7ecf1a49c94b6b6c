"""Searches over several sources, on recorded kernels of CUDA families and of the library."""

import sys

import pytest

import costmodel
from costmodel.dataset import load_dataset
from costmodel.dataset.splits._folds import shape_siblings
from costmodel.dataset.table._read import dataset_from_measurements
from costmodel.errors import CostModelError
from costmodel.kernels import CudaSource
from costmodel.records import Workload
from costmodel.tuning import Goal, Prior, Replay, SearchSettings
from costmodel.tuning._knowledge import best_recorded, learner_for
from costmodel.tuning._subject import subject_of

pytestmark = pytest.mark.white_box

DATA = "cuda-sm-budgets"
MATMUL = "matmul-m512-n512-k512"


def tuned(workload: str, **settings):
    usual = {"sms": 8, "trials": 4, "prior": None, "on": Replay(DATA, "H100")}
    return costmodel.tune(workload, **{**usual, **settings})


@pytest.fixture(scope="module")
def informed():
    """What comes of a search over all sources that learned."""
    return tuned(MATMUL, prior=DATA)


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
    result = tuned(MATMUL, sources="library")
    assert {trial.candidate.source for trial in result.search.trials} == {"library"}
    assert "source" not in result.tables[0].header
    assert not [sentence for sentence in result.answer if "each source" in sentence]


def test_several_budgets_are_served_by_kernels_of_any_source() -> None:
    result = tuned("matmul-m128-n2048-k2048-float16", sms=Goal((8, 132), portfolio=2), trials=12)
    table = result.dispatch_table
    for i, sms in enumerate(result.search.sms):
        chosen = table.kernel_for(sms)
        (trial,) = [t for t in result.search.trials if t.candidate == chosen]
        assert trial.latency_s[i] == pytest.approx(result.search.latency_s[:, i].min())


def test_a_family_learns_from_itself_alone() -> None:
    result = tuned("cuda.nbody-n4096", prior=DATA, trials=2)
    trained = result.search.provenance.knowledge["trained_on"]
    assert trained.startswith("1 other workload")  # the other size; not matrix products, not other families
    assert result.search.provenance.knowledge["model"] == "stack"


def test_a_learner_is_taken_that_fits_the_source_unless_one_is_named(informed) -> None:
    knowledge = informed.search.provenance.knowledge
    assert {knowledge["cuda model"], knowledge["library model"]} == {"stack"}
    knowledge = tuned(
        MATMUL, prior=Prior(learn_from=DATA, learner="ridge"), trials=1
    ).search.provenance.knowledge
    assert {knowledge["cuda model"], knowledge["library model"]} == {"ridge"}


def test_kernels_that_were_measured_elsewhere_are_told_by_that() -> None:
    """The near-twin has measured all of them; in MetaSchedule's spaces a few are enough."""
    settings = {"prior": Prior(learn_from=DATA, keep_twins_apart=True), "trials": 1}
    knowledge = tuned(MATMUL, **settings).search.provenance.knowledge
    assert {knowledge["cuda model"], knowledge["library model"]} == {"known-elsewhere"}


@pytest.mark.parametrize(
    ("source", "known", "kernels", "learner"),
    [
        ("metaschedule", 0, None, "kernel-ridge"),
        ("metaschedule", 1, None, "known-elsewhere"),
        ("cuda", 50, 100, "known-elsewhere"),
        ("cuda", 49, 100, "stack"),
        ("cuda", 49, None, "stack"),
        ("spikes", 49, 100, "stack-above-analytic"),
        ("spikes", 50, 100, "known-elsewhere"),
    ],
)
def test_what_learns_depends_on_how_much_is_known_of_the_kernels(source, known, kernels, learner) -> None:
    of_source = {each.source: each for each in load_dataset(DATA).candidates}
    of_source["metaschedule"] = load_dataset("h100-sm-budgets").candidates[0]
    spikes = CudaSource().space(Workload.parse("cuda.spike_delivery-n1000-c10-r1000-d2"), "cuda")
    of_source["spikes"] = spikes.candidate(spikes.default)
    assert learner_for(of_source[source], known, kernels) == learner


def test_a_replay_learns_from_what_is_replayed_but_for_what_it_looks_for() -> None:
    """Without a wish; the history that ships knows nothing of these families."""
    settings = {"sms": 8, "trials": 3, "on": Replay(DATA, "H100"), "sources": "cuda"}
    result = costmodel.tune(MATMUL, **settings)
    asked = costmodel.tune(MATMUL, prior=DATA, **settings)
    assert result.search.trials == asked.search.trials
    known = result.search.provenance.knowledge
    assert known["dataset_sha256"] == load_dataset(DATA).sha256
    siblings = shape_siblings(load_dataset(DATA).workloads)[MATMUL]
    others = [m for m in load_dataset(DATA).to_measurements() if m.candidate.workload.name not in siblings]
    honest = costmodel.tune(MATMUL, prior=dataset_from_measurements(others), **settings)
    assert [t.candidate for t in result.search.trials] == [t.candidate for t in honest.search.trials]
    assert result.answer[-1].startswith("Left out: this workload here and on a near-twin, NVIDIA H200")


def test_what_was_not_asked_for_is_not_the_best_known() -> None:
    """The library is faster than any CUDA kernel here."""
    settings = {"sms": 8, "trials": 999}
    result = tuned(MATMUL, sources="cuda", **settings)
    seconds = {
        source: min(
            m.latency_s
            for m in load_dataset(DATA, sources=[source]).to_measurements(MATMUL)
            if m.platform.sms_granted == 8 and m.latency_s and "H100" in m.platform.device.name
        )
        for source in ("cuda", "library")
    }
    assert seconds["library"] < seconds["cuda"], "else this test shows nothing"
    assert result.best_known[8] == pytest.approx(seconds["cuda"])
    assert result.answer[0].endswith("the best known.")
    assert result.tables[0].rows[0][result.tables[0].header.index("x best")] == "1.00"
    ratio = seconds["library"] / seconds["cuda"]
    assert f"The library, which was not asked for, takes {ratio:.2f}x as long." in result.answer
    several = tuned(MATMUL, sources="cuda", **{**settings, "sms": Goal((8, 132), portfolio=2)})
    assert "at most 0.0 %" in several.answer[1]
    assert any("geometric mean over SM budgets" in each for each in several.answer if "library" in each)
    assert not any("not asked for" in each for each in tuned(MATMUL).answer)


def test_where_an_answer_came_from_is_told_in_short_lines(informed) -> None:
    answer = informed.answer
    told = answer[[each.startswith("From: ") for each in answer].index(True) :]
    assert max(map(len, told)) <= 96
    assert sum(each.startswith(("Cuda: stack, ", "Library: stack, ")) for each in told) == 2
    assert load_dataset(DATA).sha256[:12] in told[0]


def test_a_source_that_was_not_recorded_is_named_with_those_that_were() -> None:
    with pytest.raises(CostModelError, match=r"were recorded \(cuda, library\), but got metaschedule"):
        tuned(MATMUL, sources="metaschedule")
    with pytest.raises(CostModelError, match="must be one of metaschedule, cuda, triton, library or all"):
        tuned(MATMUL, sources="cutlass")


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
    search = SearchSettings(screened=50)
    settings = {"sms": 1, "trials": 1, "on": "cpu", "prior": None, "search": search}
    result = costmodel.tune("softmax-m8-n8", sources="all", **settings)
    assert {trial.candidate.source for trial in result.search.trials} == {"metaschedule"}
    (said,) = [sentence for sentence in result.answer if "left out" in sentence]
    assert said.startswith("library was left out: Measuring the library on cpu needs an optional package")
    with pytest.raises(CostModelError, match=r"\[torch\]"):
        costmodel.tune("softmax-m8-n8", sources="library", **settings)
