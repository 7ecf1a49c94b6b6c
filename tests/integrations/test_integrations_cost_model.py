import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("tvm")

import tvm
from tuned_programs import KNOWN, context_of, cuda, drawn, matmul, on_h100, result, row_sums

from costmodel.cli._app import app
from costmodel.dataset import load_dataset
from costmodel.errors import CostModelError
from costmodel.features import extract
from costmodel.features._extract import COLUMNS
from costmodel.integrations.tvm import CostModel, SearchStrategy
from costmodel.integrations.tvm._program import TunedProgram, program_key
from costmodel.kernels import open_space
from costmodel.kernels.metaschedule._source import lowered_launches
from costmodel.records import Candidate
from costmodel.records._candidate import KernelLaunch
from costmodel.transfer import Model, StorableModel, load_model, make_model
from costmodel.transfer._store import ModelMetadata
from costmodel.transfer.models._residual import FromScratch
from costmodel.workloads._recognise import relax_kernels

pytestmark = [pytest.mark.tvm, pytest.mark.white_box]

KINDS = ("matmul", "row_sums")
COLUMN_NAMES = tuple(column.name for column in COLUMNS)


@pytest.fixture(scope="module")
def pretrained() -> StorableModel:
    """Ridge regression on some of the recorded measurements."""
    data = load_dataset(Path(__file__).parents[2] / "datasets" / "h100-sm-budgets")
    rows = data.rows.iloc[::10]
    candidates = [data.candidates[i] for i in rows["candidate"]]
    platforms = [data.platforms[i] for i in rows["platform"]]
    tasks = (rows["workload"].astype(str) + rows["platform"].astype(str)).to_numpy()
    model = make_model("ridge", COLUMNS)
    return model.fit(extract(candidates, platforms).values, rows["latency_s"].to_numpy(), tasks)


@pytest.mark.parametrize("kind", KINDS)
def test_a_score_for_each_candidate_before_the_first_measurement(kind: str) -> None:
    context, candidates = drawn(kind)
    scores = CostModel(platform=on_h100()).predict(context, candidates)
    assert scores.shape == (len(candidates),)
    assert scores.dtype == np.float64
    assert (scores > 0).all()
    assert scores.max() == 1.0
    assert len(np.unique(scores)) > len(scores) // 3  # it tells candidates apart


def test_no_results_teach_nothing() -> None:
    context, candidates = drawn("matmul")
    model, other = CostModel(platform=on_h100()), CostModel(platform=on_h100())
    model.update(context, [], [])
    assert np.array_equal(model.predict(context, candidates), other.predict(context, candidates))


@pytest.mark.parametrize("kind", KINDS)
def test_it_learns_the_order_of_what_was_measured(kind: str) -> None:
    context, candidates = drawn(kind)
    features = TunedProgram(context.mod, context.target).features([c.sch for c in candidates], on_h100())
    _, first, of = np.unique(features, axis=0, return_index=True, return_inverse=True)
    seconds = 1e-4 * (1.0 + np.arange(len(first)))[of.ravel()]  # the same for what features do not tell apart
    model = CostModel(platform=on_h100())
    model.update(context, candidates, [result(s) for s in seconds])
    scores = model.predict(context, candidates)
    assert np.corrcoef(np.argsort(np.argsort(-scores[first])), seconds[first])[0, 1] > 0.9
    assert scores.max() == 1.0


def test_a_pretrained_model_ranks_before_the_first_measurement(pretrained, tmp_path: Path) -> None:
    context, candidates = drawn("matmul")
    platform = on_h100()
    given = CostModel(pretrained, platform=platform).predict(context, candidates)
    space = open_space(KNOWN, "cuda")
    ours = [Candidate(space.workload, space.name, space.config_of(c.sch.trace)) for c in candidates]
    expected = pretrained.predict(extract(ours, [platform] * len(ours)).values).score
    assert np.allclose(np.log(given), expected - expected.max())
    Model(pretrained, ModelMetadata(columns=COLUMN_NAMES)).save(tmp_path / "model")
    assert np.array_equal(
        CostModel(tmp_path / "model", platform=platform).predict(context, candidates), given
    )


def test_a_pretrained_model_is_asked_about_programs_that_it_does_not_know(pretrained) -> None:
    context, candidates = drawn("row_sums")
    ignorant, informed = (CostModel(model, platform=on_h100()) for model in (None, pretrained))
    assert not np.allclose(ignorant.predict(context, candidates), informed.predict(context, candidates))


def test_a_pretrained_model_is_not_asked_about_what_cannot_be_read(pretrained) -> None:
    """For a target of no kind that is known there is no design space."""
    _, candidates = drawn("row_sums")
    context = context_of(row_sums(), tvm.target.Target("rocm"), task="elsewhere")
    ignorant, informed = (CostModel(model, platform=on_h100()) for model in (None, pretrained))
    assert np.array_equal(ignorant.predict(context, candidates), informed.predict(context, candidates))


def test_scores_depend_on_the_budget(pretrained) -> None:
    context, candidates = drawn("matmul")
    few, many = (
        CostModel(pretrained, platform=on_h100(sms)).predict(context, candidates) for sms in (8, 132)
    )
    assert not np.allclose(few, many)


def test_tasks_do_not_mix() -> None:
    (context, candidates), (other, others) = drawn("matmul"), drawn("row_sums")
    model = CostModel(platform=on_h100())
    before = model.predict(other, others)
    model.update(context, candidates, [result(1e-3)] * len(candidates))
    assert np.array_equal(model.predict(other, others), before)


@pytest.mark.parametrize("measured", [(), KINDS])
def test_saved_and_loaded_it_says_the_same(pretrained, tmp_path: Path, measured: tuple[str, ...]) -> None:
    for model in (CostModel(platform=on_h100()), CostModel(pretrained, platform=on_h100())):
        for kind in measured:
            context, candidates = drawn(kind)
            results = [result(None if i % 4 == 0 else 1e-3 + 1e-4 * i) for i in range(len(candidates))]
            model.update(context, candidates, results)
        model.save(str(tmp_path / "model"))
        again = CostModel(platform=on_h100())
        again.load(str(tmp_path / "model"))
        for kind in KINDS:
            context, candidates = drawn(kind)
            assert np.array_equal(again.predict(context, candidates), model.predict(context, candidates))


def test_what_was_loaded_and_not_asked_for_is_saved_again(tmp_path: Path) -> None:
    context, candidates = drawn("matmul")
    model = CostModel(platform=on_h100())
    model.update(context, candidates, [result(1e-3 + 1e-4 * i) for i in range(len(candidates))])
    model.save(str(tmp_path / "first"))
    CostModel(tmp_path / "first", platform=on_h100()).save(str(tmp_path / "second"))
    last = CostModel(tmp_path / "second", platform=on_h100())
    assert np.array_equal(last.predict(context, candidates), model.predict(context, candidates))


def test_its_file_says_where_it_comes_from_as_that_of_every_model_does(pretrained, tmp_path: Path) -> None:
    about = ModelMetadata(learner="ridge", workloads=("a",), columns=COLUMN_NAMES)
    for model, learner in ((None, "scratch"), (Model(pretrained, about), "ridge")):
        CostModel(model, platform=on_h100()).save(str(tmp_path / "model"))
        CostModel(tmp_path / "model").save(str(tmp_path / "again"))
        found = load_model(tmp_path / "again").metadata
        assert (found.learner, found.columns) == (learner, COLUMN_NAMES)
    assert found == about


def test_the_command_tunes_with_its_file(pretrained, tmp_path: Path) -> None:
    for model in (None, pretrained):
        CostModel(model, platform=on_h100()).save(str(tmp_path / "model"))
        command = ["tune", "softmax-m1536-n128", "--sms", "24", "--trials", "3", "--model"]
        done = CliRunner().invoke(app, [*command, str(tmp_path / "model")], catch_exceptions=False)
        assert done.exit_code == 0, done.output


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pickle").write_bytes(pickle.dumps({"a": 1}))
    with zipfile.ZipFile(tmp_path / "zip", "w") as archive:
        archive.writestr("model.json", "{}")
    for name in ("pickle", "zip", "missing"):
        with pytest.raises(CostModelError):
            CostModel(tmp_path / name)


def test_a_model_of_other_columns_is_refused(tmp_path: Path) -> None:
    columns = COLUMN_NAMES[:-1]
    model = FromScratch().fit(np.zeros((1, len(columns))), np.ones(1), np.zeros(1))
    Model(model, ModelMetadata(columns=columns)).save(tmp_path / "model")
    with pytest.raises(CostModelError, match="feature columns"):
        CostModel(tmp_path / "model")


@pytest.mark.parametrize("kind", [CostModel, SearchStrategy])
def test_a_budget_that_is_not_the_platforms_is_refused(kind: type) -> None:
    with pytest.raises(CostModelError, match="must be left out"):
        kind(sms=16, platform=on_h100(32))


def test_a_known_program_is_recognised_in_any_spelling_and_not_lowered() -> None:
    for function in (*relax_kernels(KNOWN), matmul()["main"]):
        context = context_of(function)
        program = TunedProgram(context.mod, cuda(), lower=lambda _: pytest.fail("lowered"))
        assert program.workload == KNOWN
        features = program.features(context.generate_design_space(), on_h100())
        assert np.isfinite(features[:, COLUMN_NAMES.index("log2_analytic_s")]).all()


def test_an_unknown_program_has_features_of_its_own_and_is_not_lowered() -> None:
    def refuse(_: object) -> tuple[KernelLaunch, ...]:
        raise AssertionError("it was lowered")

    context, candidates = drawn("row_sums")
    program = TunedProgram(context.mod, context.target, lower=refuse)
    features = program.features([candidate.sch for candidate in candidates], on_h100())
    assert program.workload.is_program
    lowered = [lowered_launches(candidate.sch.mod) for candidate in candidates]
    blocks = [launch.blocks for (launch,) in lowered]
    assert np.array_equal(2 ** features[:, COLUMN_NAMES.index("log2_blocks")], blocks)
    groups = np.array([column.group for column in COLUMNS])
    assert np.isfinite(features[:, groups == "workload"]).all()
    assert np.isfinite(features[:, COLUMN_NAMES.index("log2_unroll")]).all()


def test_a_schedule_that_follows_no_sketch_is_lowered() -> None:
    program = TunedProgram(row_sums(), cuda())
    features = program.features([tvm.s_tir.Schedule(row_sums())], on_h100())
    groups = np.array([column.group for column in COLUMNS])
    assert np.isnan(features[:, groups == "config"]).all()
    assert np.isfinite(features[:, COLUMN_NAMES.index("log2_blocks")]).all()


def test_a_program_has_the_same_key_in_every_process_and_another_than_others() -> None:
    code = (
        "from costmodel.integrations.tvm._program import program_key;"
        "from costmodel.kernels.metaschedule._source import open_space;"
        "from costmodel.records._workload import Workload;"
        "print(program_key(open_space(Workload.parse('matmul-m256-n256-k256'), 'cuda').module))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [program_key(matmul())]
    assert len({program_key(matmul()), program_key(row_sums())}) == 2


@pytest.mark.parametrize("informed", [False, True])
def test_failures_are_avoided(informed: bool, pretrained) -> None:
    context, candidates = drawn("matmul")
    model = CostModel(pretrained if informed else None, platform=on_h100())
    failing = range(0, len(candidates), 2)
    results = [result(None if i in failing else 1e-3) for i in range(len(candidates))]
    model.update(context, candidates, results)
    scores = model.predict(context, candidates)
    assert max(scores[i] for i in failing) < max(scores)
