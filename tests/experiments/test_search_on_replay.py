"""The replayed searches run through on a landscape, in small."""

import importlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import optuna
import pytest
from optuna import Study
from optuna.samplers import RandomSampler
from optuna.trial import FrozenTrial, TrialState

from costmodel.dataset import CardHeader, build_dataset, load_dataset
from costmodel.kernels import sample_candidates
from costmodel.records import Config, RecordStore, Workload, find_device
from costmodel.records._platform import part_of
from costmodel.search import Pool, PoolSampler
from costmodel.search.samplers._history import History
from costmodel.testing import LANDSCAPE_WORKLOADS, gpu_landscape
from costmodel.transfer import LearningRows, load_model, make_model

pytestmark = pytest.mark.white_box

SCRIPT = Path(__file__).parents[2] / "experiments" / "search_on_replay" / "run.py"
HEADER = CardHeader("Landscape", "For a test.", "None.", "None.", "None", "None")
ROWS = {"ours, kernel-ridge", "ours, nothing known", "Optuna TPE", "genetic search", "random order"}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("landscape")
    data = gpu_landscape(workloads=LANDSCAPE_WORKLOADS[:4], configs_per_workload=16, sms=(8, 32, 132))
    with RecordStore(folder / "records.jsonl") as store:
        store.append(data.to_measurements())
    build_dataset([folder / "records.jsonl"], folder / "built", header=HEADER)
    return folder / "built"


@pytest.mark.tvm
@pytest.mark.parametrize(("sign", "better"), [(1, max), (-1, min)])
def test_stocks_model_learns_where_it_is_told_that_kernels_are_fast(sign, better, monkeypatch):
    """After a batch at random, its model proposes kernels with more, or with fewer, threads in a block."""
    pytest.importorskip("tvm")
    monkeypatch.syspath_prepend(SCRIPT.parent)
    stock = importlib.import_module("stock_xgb")
    drawn = sample_candidates(Workload.parse("matmul-m256-n256-k256"), "cuda", 48, 0)
    pool = Pool(drawn, part_of(find_device("NVIDIA H100 80GB HBM3"), 32))
    threads = np.array([candidate.launches[0].threads_per_block for candidate in drawn])
    study = optuna.create_study(sampler=stock.StockXGBSampler(stock.ScheduledPool(pool), seed=1))
    proposed = []
    for _ in range(4 * stock.BATCH):
        trial = study.ask(pool.distributions)
        proposed.append(threads[pool.position(trial.params)])
        study.tell(trial, 1e-5 * float(proposed[-1]) ** -sign)
    batches = np.log2(proposed).reshape(4, stock.BATCH).mean(axis=1)
    assert better(batches[1:3]) == better(batches)
    assert sign * (batches[1] - np.log2(threads).mean()) > 0


def run(dataset: Path, out: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    options = ["--folds", "2", "--seeds", "2", "--cap", "12", "--learner", "kernel-ridge", "--processes", "1"]
    files = ["--json", out / "result.json", "--curves", out / "curves.json", "--plot", out / "drawn.png"]
    places = ["--dataset", dataset, "--out", out, *files]
    command = [sys.executable, SCRIPT, *options, "--no-tvm", "--no-gp", *places, *arguments]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)


def results(out: Path) -> list[dict]:
    return [row for file in sorted(out.glob("task-*.json")) for row in json.loads(file.read_text())]


@pytest.fixture(scope="module")
def replayed(dataset, tmp_path_factory):
    """The folder of a run that made all searches, never written to, and what it printed."""
    out = tmp_path_factory.mktemp("replayed")
    done = run(dataset, out)
    assert done.returncode == 0, done.stderr
    return out, done.stdout


@pytest.mark.rehearsal
def test_no_model_knows_what_is_searched(dataset, replayed):
    """Each is the model that a fit to the other workloads gives, and no other."""
    out, _ = replayed
    searched: dict[int, set[str]] = {}
    for row in results(out):
        searched.setdefault(row["fold"], set()).add(row["task"].split("@")[0])
    assert {fold: len(workloads) for fold, workloads in searched.items()} == {0: 2, 1: 2}
    data = LearningRows.of(load_dataset(dataset))
    for fold, workloads in searched.items():
        others = np.flatnonzero(~data.rows["workload"].isin(list(workloads)))
        expected = data.fit(make_model("kernel-ridge", data.table.columns), others)
        kept = load_model(out / "models" / f"{fold}-kernel-ridge.zip").model
        scores = [model.predict(data.table.values).score for model in (kept, expected)]
        np.testing.assert_allclose(*scores, rtol=1e-9)


@pytest.mark.rehearsal
def test_all_searches_are_replayed_on_held_out_workloads(replayed):
    out, printed = replayed
    table = json.loads((out / "result.json").read_text())
    assert set(table) == ROWS
    assert {row["searches"] for row in table.values()} == {8}
    assert "| ours, kernel-ridge | 8 |" in printed
    rows = results(out)
    assert {row["fold"] for row in rows} == {0, 1}
    for row in rows:
        curve = row["best_so_far"]
        assert curve == sorted(curve)
        assert len(curve) == 12 or curve[-1] == 1.0
        assert row["n_5"] == next((i for i, score in enumerate(curve, 1) if score * 1.05 >= 1.0), None)
    first = [row["best_so_far"][0] for row in rows if row["search"] == "random order"]
    after = json.loads((out / "curves.json").read_text())["random order"]["mean score after"]
    assert after["1"] == pytest.approx(np.mean(first), abs=1e-4)
    assert list(after) == ["1", "2", "3", "4", "6", "8", "12"]
    assert (out / "drawn.png").exists()


@pytest.mark.rehearsal
def test_some_searches_are_made_and_the_other_rows_are_kept(dataset, replayed, tmp_path):
    before, path = replayed[0], tmp_path / "result.json"
    row = json.loads((before / "result.json").read_text())["random order"] | {"searches": 1}
    path.write_text(json.dumps({"stock XGBoost": row, "random order": row}))
    curve = json.loads((before / "curves.json").read_text())["random order"]
    (tmp_path / "curves.json").write_text(json.dumps({"stock XGBoost": curve}))
    done = run(dataset, tmp_path, "--search", "random order", "--search", "ours, nothing known")
    assert done.returncode == 0, done.stderr
    assert {row["search"] for row in results(tmp_path)} == {"random order", "ours, nothing known"}
    table = json.loads(path.read_text())
    assert list(table) == ["ours, nothing known", "stock XGBoost", "random order"]
    assert [row["searches"] for row in table.values()] == [8, 1, 8]
    curves = json.loads((tmp_path / "curves.json").read_text())
    assert list(curves) == list(table)
    assert curves["stock XGBoost"] == curve
    refused = run(dataset, tmp_path, "--search", "luck")
    assert refused.returncode == 1
    assert "--search must be among ours, kernel-ridge; " in refused.stderr


@pytest.mark.rehearsal
def test_searches_of_other_tasks_are_not_kept_beside_those_that_are_made(dataset, tmp_path):
    (tmp_path / "curves.json").write_text(json.dumps({"stock XGBoost": {"searches": 360}}))
    refused = run(dataset, tmp_path, "--search", "random order")
    assert refused.returncode == 1
    assert "those of stock XGBoost are of others. Make all again, without --search" in refused.stderr
    assert not results(tmp_path)
    done = run(
        dataset, tmp_path, "--every", "2", "--search", "random order", "--curves", tmp_path / "own.json"
    )
    assert done.returncode == 0, done.stderr


class InOrder(PoolSampler):
    """Takes the candidates in their order, and keeps what it is told."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool, RandomSampler())
        self.told: list[tuple[int, TrialState, float | None]] = []

    def choose(self, study: Study, trial: FrozenTrial, history: History) -> Config:
        return self.pool.candidates[trial.number].config

    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        self.told.append((trial.number, state, values[0] if values else None))


@pytest.mark.parametrize("told_failures", [True, False])
def test_samplers_of_optuna_are_told_failures_as_four_times_the_slowest(told_failures, monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    import searches
    import tasks

    data = gpu_landscape(workloads=LANDSCAPE_WORKLOADS[:1], configs_per_workload=8, sms=(8,))
    pool = Pool(data.candidates[:6], data.platforms[0])
    latency_s = np.array([np.inf, 5.0, 3.0, np.inf, 7.0, 1.0])
    sampler = InOrder(pool)
    search = searches.Search(lambda seed: sampler, 1, told_failures=told_failures)
    found = searches.replay(tasks.Task(0, 0, "w", pool, latency_s), search, 0, cap=6, until=0.0)
    assert (found["failed"], found["n_1"]) == (2, 6)
    complete, failed = TrialState.COMPLETE, TrialState.FAIL
    ran = [(i, complete, latency_s[i]) for i in (1, 2, 4, 5)]
    if told_failures:  # the first failure waits until something ran
        assert sampler.told == [ran[0], (0, complete, 20.0), ran[1], (3, complete, 20.0), *ran[2:]]
    else:
        assert sampler.told == [(0, failed, None), *ran[:2], (3, failed, None), *ran[2:]]
