import json
import sys
from pathlib import Path

import numpy as np
import pytest
from fake_service import FakeService
from msgspec import structs
from typer.testing import CliRunner, Result

from costmodel.cli._app import app
from costmodel.collector import CudaRunner, ReplayRunner
from costmodel.dataset import CardHeader, build_dataset, load_dataset
from costmodel.errors import CostModelError
from costmodel.records import RecordStore
from costmodel.testing import gpu_landscape
from costmodel.transfer import Model, load_model, make_model

pytestmark = pytest.mark.white_box

WORKLOAD = "matmul-m512-n512-k512"
OTHERS = ("matmul-m128-n768-k768", "matmul-m64-n2304-k768")
HEADER = CardHeader("Landscape", "For tests.", "A formula.", "Not real.", "CC0-1.0", "Nobody, 2026.")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("landscape")
    landscape = gpu_landscape(
        seed=2, workloads=[WORKLOAD, *OTHERS], configs_per_workload=40, sms=(8, 32, 132)
    )
    with RecordStore(folder / "records.jsonl") as store:
        store.append(landscape.to_measurements())
    build_dataset([folder / "records.jsonl"], folder / "built", header=HEADER)
    return folder / "built"


def costmodel(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "160"})


def tune(dataset: Path, tmp_path: Path, *arguments: object) -> Result:
    outputs = ("--plot", tmp_path / "tune.png", "--json", tmp_path / "tune.json")
    source = ("--learn-from", dataset, "--replay", dataset, "--learner", "ridge")
    return costmodel("tune", WORKLOAD, *source, *outputs, *arguments)


def tune_with_model(dataset: Path, tmp_path: Path, file: Path, *arguments: object) -> Result:
    outputs = ("--plot", tmp_path / "tune.png", "--json", tmp_path / "tune.json")
    return costmodel("tune", WORKLOAD, "--replay", dataset, "--model", file, *outputs, *arguments)


def assert_refused(result: Result, *texts: str) -> None:
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    for text in texts:
        assert text in result.stderr


def recorded_latencies(dataset: Path, sms: int) -> list[float]:
    rows = load_dataset(dataset).rows
    return sorted(rows[(rows["workload"] == WORKLOAD) & (rows["sms_granted"] == sms)]["latency_s"])


def test_replay_says_so_first_and_answers_with_provenance(dataset: Path, tmp_path: Path) -> None:
    result = tune(dataset, tmp_path, "--sms", 32, "--trials", 6)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Replay: nothing is measured; 120 recorded measurements of landscape GPU")
    assert "Run " in result.stdout
    assert "6 candidates measured, 40 screened" in result.stdout
    assert "Known: ridge, trained on 2 other workloads" in result.stdout
    assert load_dataset(dataset).sha256[:12] in result.stdout
    assert (tmp_path / "tune.png").read_bytes().startswith(b"\x89PNG")


def test_json_holds_trials_comparisons_and_provenance(dataset: Path, tmp_path: Path) -> None:
    assert tune(dataset, tmp_path, "--sms", 8, "--trials", 10).exit_code == 0
    report = json.loads((tmp_path / "tune.json").read_text())
    latencies = recorded_latencies(dataset, 8)
    assert len(report["trials"]) == 10
    assert all(trial["latency_s"][0] in (None, *map(pytest.approx, latencies)) for trial in report["trials"])
    assert report["best"]["latency_s"] == [min(trial["latency_s"][0] or 1.0 for trial in report["trials"])]
    curves = report["latency_s_by_sms"]
    best = {str(sms): recorded_latencies(dataset, sms)[0] for sms in (8, 32, 132)}
    assert curves["best known"] == pytest.approx(best)
    assert curves["whole-device choice"]["132"] == curves["best known"]["132"]
    assert [curves["chosen"]["8"]] == report["best"]["latency_s"]
    assert report["provenance"]["knowledge"]["dataset_sha256"] == load_dataset(dataset).sha256
    assert report["provenance"]["n_measurements"] == 10


def test_the_whole_pool_finds_the_best_known(dataset: Path, tmp_path: Path) -> None:
    result = tune(dataset, tmp_path, "--sms", 32, "--trials", 999)
    assert "the best known" in result.stdout
    assert ("launch_error" in result.stdout) == (recorded_latencies(dataset, 32)[-1] == float("inf"))


def test_without_a_budget_it_tunes_for_the_whole_device(dataset: Path, tmp_path: Path) -> None:
    assert "on 132 SMs of landscape GPU" in tune(dataset, tmp_path, "--trials", 2).stdout


@pytest.mark.parametrize("name", ["study.db", "study.log"])
def test_a_study_goes_on_where_it_stopped(dataset: Path, tmp_path: Path, name: str) -> None:
    study = ("--sms", 32, "--study", tmp_path / name)
    assert tune(dataset, tmp_path, *study, "--trials", 4).exit_code == 0
    first = json.loads((tmp_path / "tune.json").read_text())["trials"]
    assert tune(dataset, tmp_path, *study, "--trials", 7).exit_code == 0
    second = json.loads((tmp_path / "tune.json").read_text())["trials"]
    assert len(second) == 7
    assert second[:4] == first


def test_a_search_that_is_not_worth_it_any_more_stops(dataset: Path, tmp_path: Path) -> None:
    assert tune(dataset, tmp_path, "--sms", 32, "--trials", 40, "--stop-gain", "20%").exit_code == 0
    assert len(json.loads((tmp_path / "tune.json").read_text())["trials"]) < 40


@pytest.mark.parametrize("option", ["--plot", "--json", "--dispatch", "--report"])
def test_a_file_that_cannot_be_written_is_refused_before_the_search(
    dataset: Path, tmp_path: Path, option: str
) -> None:
    (tmp_path / "file").write_text("")
    study = tmp_path / "study.log"
    path = tmp_path / "file" / "out.png"
    result = tune(dataset, tmp_path, "--study", study, option, path)
    assert result.exit_code == 2
    assert "is a file, not a folder" in " ".join(result.stderr.split())
    assert not study.exists()


@pytest.mark.parametrize(("study", "text"), [(("--study", "study.log"), "goes on"), ((), "--study FILE")])
def test_who_interrupts_a_search_is_told_how_to_go_on(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, study: tuple[str, ...], text: str
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ReplayRunner, "measure", interrupt)
    result = tune(dataset, tmp_path, *study)
    assert result.exit_code == 130
    assert text in result.stderr


def test_a_picture_that_nobody_asked_for_ends_nothing(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    line = ("tune", WORKLOAD, "--replay", dataset, "--learner", "ridge", "--trials", 2)
    drawn = costmodel(*line)
    assert "Picture: out/tune-" in drawn.stdout
    (tmp_path / "out").rename(tmp_path / "drawn")
    (tmp_path / "out").touch()  # as where nothing can be written
    result = costmodel(*line, "--dispatch", "table.json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "No picture: Cannot write out/tune-" in result.stdout
    assert (tmp_path / "table.json").is_file()


@pytest.mark.parametrize("share", ["0", "150%", "much", "1%%"])
def test_a_gain_that_is_no_share_is_refused(dataset: Path, tmp_path: Path, share: str) -> None:
    assert_refused(tune(dataset, tmp_path, "--stop-gain", share), "--stop-gain must be a share", share)


def test_a_study_of_unknown_kind_is_refused(dataset: Path, tmp_path: Path) -> None:
    assert_refused(tune(dataset, tmp_path, "--study", "study.txt"), ".journal", "postgresql://")


def test_unknown_workload_lists_the_nearest(dataset: Path) -> None:
    result = costmodel("tune", "matmul-m512-n512-k51", "--replay", dataset)
    assert_refused(result, "'matmul-m512-n512-k51'", f"Did you mean {WORKLOAD!r}")


def test_unlike_workload_lists_all(dataset: Path) -> None:
    assert_refused(costmodel("tune", "zzz", "--replay", dataset), "one of the 3", WORKLOAD, *OTHERS)


def test_unrecorded_budget_is_refused(dataset: Path, tmp_path: Path) -> None:
    assert_refused(tune(dataset, tmp_path, "--sms", 33), "(8, 32, 132)", "33")


def test_unknown_learner_is_refused(dataset: Path, tmp_path: Path) -> None:
    assert_refused(tune(dataset, tmp_path, "--learner", "oracle"), "oracle")


def test_a_model_that_saw_the_workload_is_refused(dataset: Path, tmp_path: Path) -> None:
    file = tmp_path / "seen.costmodel"
    assert costmodel("train", dataset, "--out", file, "--learner", "ridge").exit_code == 0
    assert_refused(
        tune_with_model(dataset, tmp_path, file), f"learned from {WORKLOAD}", f"--hold-out {WORKLOAD}"
    )


def test_a_model_of_other_columns_is_refused(dataset: Path, tmp_path: Path) -> None:
    file = tmp_path / "old.costmodel"
    held_out = ("--hold-out", WORKLOAD, "--learner", "ridge")
    assert costmodel("train", dataset, "--out", file, *held_out).exit_code == 0
    old = load_model(file)
    columns = old.metadata.columns[1:]
    model = make_model("ridge", ()).fit(np.ones((2, len(columns))), np.array([1.0, 2.0]), np.zeros(2))
    Model(model, structs.replace(old.metadata, columns=columns)).save(file)
    assert_refused(tune_with_model(dataset, tmp_path, file), "feature columns", "Train it again")


def test_a_model_that_never_saw_the_workload_is_used(dataset: Path, tmp_path: Path) -> None:
    file = tmp_path / "unseen.costmodel"
    held_out = ("--hold-out", WORKLOAD, "--learner", "ridge")
    assert costmodel("train", dataset, "--out", file, *held_out).exit_code == 0
    assert tune_with_model(dataset, tmp_path, file, "--trials", 3).exit_code == 0
    with_file = json.loads((tmp_path / "tune.json").read_text())
    tune(dataset, tmp_path, "--trials", 3)
    trained_here = json.loads((tmp_path / "tune.json").read_text())
    assert with_file["provenance"]["knowledge"]["model"] == f"{file} (ridge)"
    assert with_file["trials"] == trained_here["trials"]


def test_no_gpu_is_one_sentence(dataset: Path, tmp_path: Path) -> None:
    try:
        CudaRunner().close()
    except CostModelError as error:
        command = ("tune", WORKLOAD, "--runner", "cuda", "--learn-from", dataset)
        assert_refused(costmodel(*command), " ".join(str(error).split()))
    else:
        pytest.skip("there is a GPU")


def test_xgboost_not_installed_is_one_sentence(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    result = costmodel("tune", WORKLOAD, "--learn-from", dataset, "--replay", dataset, "--learner", "xgboost")
    assert_refused(result, "-m pip install", "[xgboost-cpu]")


@pytest.mark.tvm
def test_a_small_matmul_is_tuned_for_real_on_the_cpu(tmp_path: Path) -> None:
    pytest.importorskip("tvm")
    outputs = ("--plot", tmp_path / "tune.png", "--json", tmp_path / "tune.json")
    limits = ("--sms", 1, "--trials", 4, "--screened", 500)
    result = costmodel("tune", "matmul-m64-n64-k64", "--runner", "cpu", *limits, *outputs)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Measuring on ")
    assert "4 candidates measured, 500 screened" in result.stdout
    assert "Known: nothing before this search" in result.stdout
    report = json.loads((tmp_path / "tune.json").read_text())
    assert report["platforms"][0]["device"]["kind"] == "cpu"
    assert report["platforms"][0]["sms_granted"] == 1
    assert [trial["outcomes"] for trial in report["trials"]] == [["ok"]] * 4
    latencies = [trial["latency_s"][0] for trial in report["trials"]]
    assert report["best"]["latency_s"] == [min(latencies)]
    # 524,288 operations: no more than 64 a clock at 5 GHz, no fewer than one a microsecond.
    assert all(2 * 64**3 / (5e9 * 64) < latency < 0.5 for latency in latencies)
    assert report["latency_s_by_sms"]["chosen"].keys() >= {"1"}
    assert (tmp_path / "tune.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.gpu
@pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="needs an NVIDIA GPU")
def test_a_convolution_is_tuned_for_real_on_the_gpu(tmp_path: Path) -> None:
    limits = ("--sms", 32, "--trials", 4, "--json", tmp_path / "tune.json")
    result = costmodel("tune", "conv2d-n1-c256-h14-w14-o256-k3-s1", "--runner", "cuda", *limits)
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "tune.json").read_text())
    assert report["platforms"][0]["sms_granted"] == 32
    assert report["platforms"][0]["isolation"] == "green_context"
    trained_on = report["provenance"]["knowledge"]["trained_on"]
    assert trained_on.startswith("71 other workloads ")
    assert trained_on.endswith(" of sm-budgets")


def test_a_service_beside_it_is_watched_and_told(dataset: Path, tmp_path: Path) -> None:
    with FakeService(tmp_path) as service:
        options = ("--sms", 8, "--trials", 2, "--beside", service.log, "--may-lose", "30%")
        result = tune(dataset, tmp_path, *options)
    assert result.exit_code == 0, result.output
    assert "Beside a service, whose p99 may rise by 30 %." in result.stdout
    assert "The service beside it: p99 1.0" in result.stdout
    assert json.loads((tmp_path / "tune.json").read_text())["service"]["requests"] > 0


def test_what_a_service_may_lose_needs_one(dataset: Path, tmp_path: Path) -> None:
    assert_refused(tune(dataset, tmp_path, "--sms", 8, "--may-lose", "5%"), "--may-lose", "--beside")
    missing = ("--sms", 8, "--beside", tmp_path / "none.log")
    assert_refused(tune(dataset, tmp_path, *missing), "none.log cannot be read", "Start the service first")
    wrong = ("--sms", 8, "--beside", tmp_path / "none.log", "--may-lose", "much")
    assert_refused(tune(dataset, tmp_path, *wrong), "--may-lose must be a share")


@pytest.mark.parametrize("place", ["cuda/own/vector_add", "triton_kernels/own/scale"])
def test_a_kernel_of_ones_own_without_a_runner_is_told_to_be_measured(place: str) -> None:
    result = costmodel("tune", Path(__file__).parents[1] / "kernels" / place, "--sms", 8)
    assert_refused(result, "must be measured")
    assert "--runner cuda" in result.stderr
    assert "batch_matmul" not in result.stderr


def test_a_workload_of_another_shipped_dataset_is_told_which() -> None:
    name = "triton.gated_mlp-m512-n2816-k1024"
    assert_refused(costmodel("tune", name, "--sms", 32), name, "`--replay triton-sm-budgets`")
