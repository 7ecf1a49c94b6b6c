"""``costmodel.tune`` from Python, on a landscape whose best kernels are known."""

import json
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs
from unrecorded import Unrecorded

import costmodel
from costmodel.collector import RecordedRunner, ReplayRunner
from costmodel.dataset import CardHeader, build_dataset, load_dataset
from costmodel.dataset.table._read import dataset_from_measurements
from costmodel.errors import CostModelError
from costmodel.files import write_json
from costmodel.records import RecordStore, Workload, read_records
from costmodel.report._progress import Progress
from costmodel.search._drift_monitor import Drift
from costmodel.testing import LANDSCAPE_DEVICE, gpu_landscape
from costmodel.tuning import Goal, Prior, Replay, SearchSettings
from costmodel.tuning._knowledge import held_out_devices

pytestmark = pytest.mark.white_box

WORKLOAD = "matmul-m512-n512-k512"
OTHER = "matmul-m128-n768-k768"
SMS = (8, 96, 132)


@pytest.fixture(scope="module")
def dataset():
    return gpu_landscape(seed=2, workloads=[WORKLOAD, OTHER], configs_per_workload=40, sms=SMS)


@pytest.fixture(scope="module")
def latency_s(dataset):
    rows = dataset.rows[dataset.rows["workload"] == WORKLOAD]
    return rows.pivot_table(index="candidate", columns="sms_granted", values="latency_s").to_numpy()


def tune(dataset, **settings):
    return costmodel.tune(
        WORKLOAD, on=Replay(dataset), prior=Prior(learn_from=dataset, learner="ridge"), **settings
    )


def test_all_that_is_measured_gives_the_best_of_all(dataset, latency_s):
    result = tune(dataset, sms=8, trials=999)
    assert result.best.latency_s == pytest.approx((latency_s[:, 0].min(),))
    assert len(result.trials) == 40
    assert result.to_frame()["latency_s"].min() == result.best.latency_s[0]
    assert set(result.to_frame()["outcome"]) >= {"ok"}
    for former in (
        lambda: result.trials[["trial", "latency_s"]],
        lambda: result.trials.sort_values("trial")[["trial", "latency_s"]],
        lambda: result.trials[result.trials.trial >= 0][["trial", "latency_s"]],
    ):
        with pytest.warns(DeprecationWarning, match=r"now result\.to_frame\(\)"):
            assert former().equals(result.to_frame()[["trial", "latency_s"]])
    with pytest.raises(AttributeError, match="without misspelt"):
        _ = result.trials.misspelt
    assert pickle.loads(pickle.dumps(result.trials)) == result.trials[:] == tuple(result.trials)
    assert "8 SMs of landscape GPU" in result.answer[0]
    assert result.free_sms is None


@pytest.mark.parametrize("first", [3, "best", ("best",), None])
def test_kernels_to_measure_first_are_candidates(first):
    with pytest.raises(
        CostModelError, match=r"first must be .*candidates, such as \(result\.best\.candidate,\)"
    ):
        Prior(first=first)


def test_progress_of_a_search_that_goes_on_counts_what_is_left(dataset, tmp_path, monkeypatch):
    totals = []

    class Shown(Progress):
        def __init__(self, what, total):
            totals.append(total)
            super().__init__(what, total)

    monkeypatch.setattr("costmodel.tuning._tune.Progress", Shown)
    for trials in (3, 5, 4):
        tune(dataset, sms=8, trials=trials, search=SearchSettings(study=str(tmp_path / "study.log")))
    assert totals == [3, 2, 0]


def test_a_workload_is_an_object_or_its_name(dataset):
    settings = {
        "sms": 8,
        "trials": 3,
        "on": Replay(dataset),
        "prior": Prior(learn_from=dataset, learner="ridge"),
    }
    by_object = costmodel.tune(costmodel.Workload.parse(WORKLOAD), **settings)
    assert by_object.search.trials == costmodel.tune(WORKLOAD, **settings).search.trials


def test_a_runner_of_ones_own_measures_and_stays_open(dataset):
    runner = ReplayRunner(dataset.to_measurements(WORKLOAD))
    result = costmodel.tune(
        WORKLOAD, sms=8, trials=3, on=runner, prior=Prior(learn_from=dataset, learner="ridge")
    )
    assert result.search.trials == tune(dataset, sms=8, trials=3).search.trials


def test_a_model_in_memory_is_used_and_one_that_saw_the_answer_refused(dataset):
    model = costmodel.train(dataset, "ridge", hold_out=[WORKLOAD])
    result = costmodel.tune(WORKLOAD, sms=8, trials=3, on=Replay(dataset), prior=model)
    assert result.search.trials == tune(dataset, sms=8, trials=3).search.trials
    with pytest.raises(CostModelError, match="must have a model that never saw it"):
        costmodel.tune(WORKLOAD, on=Replay(dataset), prior=costmodel.train(dataset, "ridge"))


def test_a_model_that_saw_a_sibling_of_what_is_replayed_is_refused(dataset):
    sibling = gpu_landscape(seed=2, workloads=[f"{WORKLOAD}-float16"], configs_per_workload=40, sms=SMS)
    model = costmodel.train(sibling, "nearest-task")
    with pytest.raises(CostModelError, match=f"learned from {WORKLOAD}-float16"):
        costmodel.tune(WORKLOAD, sms=8, trials=3, on=Replay(dataset), prior=model)


def test_a_latency_that_rounds_to_three_digits_has_no_lone_point(dataset):
    result = tune(dataset, sms=8, trials=1)
    (trial,) = result.search.trials
    slower = replace(result, search=replace(result.search, trials=(replace(trial, latency_s=(99.97e-6,)),)))
    assert ": 100 us on 8 SMs" in slower.answer[0]


def test_a_drift_of_all_measured_times_is_told(dataset):
    result = tune(dataset, sms=8, trials=3)
    assert not [sentence for sentence in result.answer if "drift" in sentence]
    drifted = replace(result, search=replace(result.search, drifts=(Drift(1.3, 2),)))
    (told,) = [sentence for sentence in drifted.answer if "drift" in sentence]
    assert told.startswith("Measured times drifted by x1.30 from trial 2 on")
    assert drifted.to_dict()["drifts"] == (Drift(1.3, 2),)


def test_what_is_replayed_is_not_learned_from(dataset):
    """The same search with the answers changed learns the same at first."""
    other = [m for m in dataset.to_measurements() if m.candidate.workload.name != WORKLOAD]
    honest = costmodel.tune(
        WORKLOAD,
        sms=8,
        trials=1,
        on=Replay(dataset),
        prior=Prior(learn_from=dataset_from_measurements(other), learner="ridge"),
    )
    assert tune(dataset, sms=8, trials=1).search.trials == honest.search.trials


def test_a_replay_learns_from_no_sibling_of_what_it_searches(dataset):
    """Kernels in another dtype are good and bad in nearly the same order."""
    sibling = gpu_landscape(seed=2, workloads=[f"{WORKLOAD}-float16"], configs_per_workload=40, sms=SMS)
    history = dataset_from_measurements([*dataset.to_measurements(), *sibling.to_measurements()])
    without, found = (
        costmodel.tune(
            WORKLOAD,
            sms=8,
            trials=3,
            on=Replay(dataset),
            prior=Prior(learn_from=each, learner="nearest-task"),
        )
        for each in (dataset, history)
    )
    assert found.search.trials == without.search.trials
    assert found.search.provenance.knowledge["trained_on"].startswith("1 other workload of")


TWIN = structs.replace(LANDSCAPE_DEVICE, name="twin of the landscape GPU")


@pytest.fixture(scope="module")
def with_twin(dataset):
    """The workload on two devices that measured the same, and a history of one of them."""
    measured = dataset.to_measurements(WORKLOAD)
    on_twin = [
        structs.replace(each, platform=structs.replace(each.platform, device=TWIN)) for each in measured
    ]
    return dataset_from_measurements([*measured, *on_twin])


def told_by(history, runner, *, keep_twins_apart=False) -> tuple[dict[str, str], bool]:
    """What a search says that it learned from, and whether it measured the best kernel first."""
    result = costmodel.tune(
        WORKLOAD,
        sms=8,
        trials=1,
        on=runner,
        prior=Prior(learn_from=history, learner="nearest-task", keep_twins_apart=keep_twins_apart),
    )
    runs = [m for m in history.to_measurements(WORKLOAD) if m.platform.sms_granted == 8 and m.latency_s]
    best = min(runs, key=lambda measurement: measurement.latency_s)
    found = result.search.best.candidate.candidate_id == best.candidate.candidate_id
    return dict(result.search.provenance.knowledge), found


def test_a_replay_holds_near_twins_out_and_says_which_and_what_lets_it_learn_from_them(dataset, with_twin):
    recorded = ReplayRunner(dataset.to_measurements(WORKLOAD))
    knowledge, _ = told_by(with_twin, recorded)
    assert knowledge["trained_on"] == "nothing"
    assert knowledge["left_out"] == (
        "this workload here and on a near-twin, twin of the landscape GPU (--keep-twins-apart learns it)"
    )
    knowledge, found = told_by(with_twin, recorded, keep_twins_apart=True)
    assert knowledge["trained_on"].startswith("this one on 1 other device")
    assert knowledge["left_out"] == "this workload here"
    assert found


def test_a_near_twin_is_held_out_that_measured_a_sibling_of_the_workload_alone(dataset):
    sibling = gpu_landscape(seed=2, workloads=[f"{WORKLOAD}-float16"], configs_per_workload=40, sms=SMS)
    others = [m for m in dataset.to_measurements() if m.candidate.workload.name != WORKLOAD]
    on_twin = [
        structs.replace(each, platform=structs.replace(each.platform, device=TWIN))
        for each in [*others, *sibling.to_measurements()]
    ]
    history = dataset_from_measurements([*others, *on_twin])
    workload, here = Workload.parse(WORKLOAD), LANDSCAPE_DEVICE.name
    assert held_out_devices(history, workload, here, keep_twins_apart=False) == (here, TWIN.name)
    assert held_out_devices(history, workload, here, keep_twins_apart=True) == (here,)


def test_on_a_device_all_of_its_history_and_its_near_twins_is_learned_from(dataset, with_twin):
    measured = dataset.to_measurements(WORKLOAD)
    knowledge, found = told_by(with_twin, Unrecorded(measured))
    assert knowledge["trained_on"].startswith("this one here and on 1 other device")
    assert "left_out" not in knowledge
    assert found
    of_twin = [m for m in with_twin.to_measurements(WORKLOAD) if m.platform.device == TWIN]
    knowledge, found = told_by(dataset_from_measurements(of_twin), Unrecorded(measured))
    assert knowledge["trained_on"].startswith("this one on 1 other device")
    assert found


def test_nothing_is_learned_from_where_that_is_asked(dataset):
    result = costmodel.tune(WORKLOAD, sms=8, trials=2, on=Replay(dataset), prior=None)
    assert result.search.provenance.knowledge["trained_on"] == "nothing"
    assert result.search.provenance.knowledge["model"] == "scratch"
    assert result.search.trials[0].predicted_rank == 1


@pytest.mark.parametrize("sms", [8, SMS, Goal(portfolio=2), Goal(free_sms=0.4)], ids=str)
def test_a_result_shows_writes_and_tells_itself(dataset, tmp_path, sms):
    result = tune(dataset, trials=8, sms=sms)
    assert repr(result).startswith("<TuneResult: Run ")
    assert len(repr(result)) < 250
    html = result._repr_html_()
    assert html.count("<table>") == len(result.tables)
    assert result.answer[0].split(":")[0] in html
    result.plot(tmp_path / "curves.svg")
    assert (tmp_path / "curves.svg").read_text().startswith("<?xml")
    result.save_report(tmp_path / "report.html")
    assert WORKLOAD in (tmp_path / "report.html").read_text()
    result.save_dispatch_table(tmp_path / "dispatch.json")
    assert costmodel.load_dispatch_table(tmp_path / "dispatch.json") == result.dispatch_table
    write_json(tmp_path / "all.json", result.to_dict())
    told = json.loads((tmp_path / "all.json").read_text())
    assert len(told["trials"]) == 8
    assert [part["config_id"] for part in told["chosen"]] == [
        r.config_id for r in result.dispatch_table.ranges
    ]


def test_a_portfolio_is_compared_with_the_best_recorded_and_the_best_measured(dataset, latency_s):
    result = tune(dataset, sms=Goal(portfolio=2), trials=6)
    served = np.array(
        [r.latency_s[sms] for sms in SMS for r in result.dispatch_table.ranges if sms in r.latency_s]
    )
    measured = 100 * (served / result.search.latency_s.min(axis=0) - 1).max()
    recorded = 100 * (served / latency_s.min(axis=0) - 1).max()
    assert recorded > measured + 0.1, "else this test shows nothing"
    assert f"at most {measured:.1f} %" in result.answer[0]
    assert "above the best measured" in result.answer[0]
    assert f"at most {recorded:.1f} %" in result.answer[1]
    assert "above the best recorded" in result.answer[1]


def test_trials_over_several_budgets_have_a_column_for_each(dataset):
    trials = tune(dataset, sms=(132, 8), trials=4).to_frame()
    assert {f"{name}_{sms}" for name in ("outcome", "latency_s") for sms in (8, 132)} <= set(trials)


def test_a_search_over_several_budgets_stops_when_it_gains_nothing(dataset):
    stopped = tune(dataset, sms=SMS, trials=40, search=SearchSettings(stop_gain=0.2))
    assert len(stopped.trials) < 40


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"sms": (8, 8)}, "distinct"),
        ({"sources": 3}, "sources must be a text"),
        ({"dims": 3}, "dims must be sizes by their names"),
        ({"search": None}, "search must be a SearchSettings"),
        ({"sms": (8, 32), "objective": "weighted", "weights": ("a", "b")}, "weights must be a number"),
        ({"sms": 0}, "sms must be a whole number of at least 1"),
        ({"sms": "32"}, "sms must be a whole number"),
        ({"trials": 0}, "trials must be a whole number of at least 1"),
        ({"trials": 1.5}, "trials must be a whole number of at least 1"),
        ({"seed": -1}, "seed must be a whole number from 0"),
        ({"portfolio": 0}, "portfolio must be a whole number of at least 1"),
        ({"free_sms": 4.0}, "free_sms must be a share"),
        ({"stop_gain": 0.0}, "stop_gain must be a share"),
        ({"sms": 8, "objective": "mean"}, "for several SM budgets"),
        ({"sms": (8, 96), "objective": "best"}, "worst-regret, mean, weighted"),
        ({"runner": "gpu"}, "one of replay, cuda, cpu"),
        ({"device": "B200"}, "landscape GPU.*B200"),
        ({"learner": "oracle"}, "oracle"),
        ({"model": "m.costmodel"}, "A model or a history"),
    ],
)
@pytest.mark.filterwarnings("ignore:tune:DeprecationWarning")
def test_what_does_not_go_together_is_refused(dataset, settings, text):
    """Written as until 0.3, which the objects of today are made of."""
    replay = {} if "runner" in settings else {"replay": dataset}
    with pytest.raises(CostModelError, match=text):
        costmodel.tune(WORKLOAD, **{"learn_from": dataset, "learner": "ridge", **replay, **settings})


@pytest.mark.parametrize(
    ("former", "now", "form"),
    [
        ({"seed": 3}, {"search": SearchSettings(seed=3)}, "search=SearchSettings(seed=3)"),
        ({"portfolio": 2}, {"sms": Goal(portfolio=2)}, "sms=Goal(portfolio=2)"),
        ({"learn_from": "nothing"}, {"prior": None}, "prior=Prior(learn_from='nothing')"),
        ({"learner": "ridge"}, {"prior": Prior(learner="ridge")}, "prior=Prior(learner='ridge')"),
    ],
)
def test_former_keywords_mean_the_same_and_show_the_new_form(dataset, former, now, form):
    with pytest.warns(DeprecationWarning, match=re.escape(form)):
        before = costmodel.tune(WORKLOAD, trials=3, on=Replay(dataset), **former)
    after = costmodel.tune(WORKLOAD, trials=3, on=Replay(dataset), **now)
    assert before.search.trials == after.search.trials


def test_a_keyword_that_never_was_is_refused():
    with pytest.raises(TypeError, match=r"'trails'.*trials"):
        costmodel.tune(WORKLOAD, trails=3)


@pytest.mark.parametrize("dropped", ["prior", "on"])
def test_a_prior_and_a_place_are_refused_by_what_they_are(dataset, dropped):
    given = {"on": Replay(dataset), "prior": None, dropped: 3}
    with pytest.raises(CostModelError, match="but got 3"):
        costmodel.tune(WORKLOAD, **given)


def test_weights_follow_their_budgets_into_the_order_of_the_platforms(dataset):
    runner = ReplayRunner(dataset.to_measurements(WORKLOAD))
    goal = Goal((96, 8, 132), "weighted", (1.0, 9.0, 2.0))
    platforms = goal.platforms(runner)
    assert [platform.sms_granted for platform in platforms] == [8, 96, 132]
    assert goal.objective_for(platforms).weights == (9.0, 1.0, 2.0)


def test_what_is_measured_is_stored_and_served_to_the_next_search(dataset, tmp_path):
    store, device = tmp_path / "records.jsonl", Unrecorded(dataset.to_measurements(WORKLOAD))
    first = costmodel.tune(WORKLOAD, sms=8, trials=5, on=RecordedRunner(device, store), prior=None)
    stored = {m.candidate.candidate_id: m.latency_s for m in read_records(store)}
    trials = first.search.trials
    assert stored == {t.candidate.candidate_id: t.latency_s[0] for t in trials}
    device.measure = None  # nothing is left to measure
    again = costmodel.tune(WORKLOAD, sms=8, trials=5, on=RecordedRunner(device, store), prior=None)
    assert again.search.trials == trials


def test_a_replay_stores_nothing(dataset, tmp_path):
    with pytest.warns(DeprecationWarning, match="records=..."):
        tune(dataset, sms=8, trials=2, records=tmp_path / "records.jsonl")
    assert not list(tmp_path.iterdir())


def test_studies_of_another_name_are_others(dataset, tmp_path):
    kept = SearchSettings(study=str(tmp_path / "study.journal"))
    tune(dataset, sms=8, trials=3, search=kept)
    assert len(tune(dataset, sms=8, trials=2, search=kept).search.trials) == 3
    mine = replace(kept, study_name="mine")
    assert len(tune(dataset, sms=8, trials=2, search=mine).search.trials) == 2


def test_a_result_tells_what_another_measurement_is_expected_to_gain(dataset):
    few = costmodel.tune(WORKLOAD, sms=8, trials=4, on=Replay(dataset), prior=None)
    all_ = costmodel.tune(WORKLOAD, sms=8, trials=40, on=Replay(dataset), prior=None)
    assert 0.0 < few.expected_gain < 1.0
    assert all_.expected_gain == 0.0
    assert tune(dataset, sms=SMS, trials=4).expected_gain is None


def test_a_replay_reads_no_other_workload(dataset, tmp_path):
    with RecordStore(tmp_path / "records.jsonl") as store:
        store.append(dataset.to_measurements())
    header = CardHeader("Landscape", "For tests.", "A formula.", "Not real.", "CC0-1.0", "Nobody, 2026.")
    files, parts = [tmp_path / "records.jsonl"], tmp_path / "parts"
    build_dataset(files, parts, header=header, partition_by="workload")
    whole = load_dataset(parts)
    (part,) = parts.glob(f"measurements/workload_name={OTHER}/*.parquet")
    part.write_bytes(b"no parquet")
    expected, found = (
        costmodel.tune(WORKLOAD, sms=8, trials=3, on=Replay(each), prior=None) for each in (whole, parts)
    )
    assert [t.candidate for t in found.search.trials] == [t.candidate for t in expected.search.trials]
    with pytest.raises(CostModelError, match="must match its checksum"):
        costmodel.tune(WORKLOAD, sms=8, trials=3, on=Replay(parts), prior=parts)
