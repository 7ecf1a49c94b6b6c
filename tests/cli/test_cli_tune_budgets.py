"""``costmodel tune`` for several SM budgets."""

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner, Result
from vocabulary import bare_words

from costmodel.cli._app import app
from costmodel.dataset import CardHeader, build_dataset, load_dataset
from costmodel.records import RecordStore
from costmodel.search import Objective, load_dispatch_table
from costmodel.search._objective import ObjectiveName
from costmodel.testing import gpu_landscape

pytestmark = pytest.mark.white_box

WORKLOAD = "matmul-m512-n512-k512"
OTHERS = ("matmul-m128-n768-k768", "matmul-m64-n2304-k768")
HEADER = CardHeader("Landscape", "For tests.", "A formula.", "Not real.", "CC0-1.0", "Nobody, 2026.")
SMS = (8, 96, 132)


def build(folder: Path, *, other_device: bool = False) -> Path:
    landscape = gpu_landscape(seed=2, workloads=[WORKLOAD, *OTHERS], configs_per_workload=40, sms=SMS)
    measurements = landscape.to_measurements()
    if other_device:
        measurements += [_elsewhere(m) for m in measurements]
    with RecordStore(folder / "records.jsonl") as store:
        store.append(measurements)
    build_dataset([folder / "records.jsonl"], folder / "built", header=HEADER)
    return folder / "built"


def _elsewhere(measurement):
    device = msgspec.structs.replace(measurement.platform.device, name="other GPU")
    platform = msgspec.structs.replace(measurement.platform, device=device)
    return msgspec.structs.replace(measurement, platform=platform)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("landscape"))


@pytest.fixture(scope="module")
def latency_s(dataset: Path) -> np.ndarray:
    rows = load_dataset(dataset).rows
    rows = rows[rows["workload"] == WORKLOAD]
    return rows.pivot_table(index="candidate", columns="sms_granted", values="latency_s").to_numpy()


def tune(dataset: Path, tmp_path: Path, *arguments: object) -> Result:
    outputs = ("--plot", tmp_path / "tune.png", "--json", tmp_path / "tune.json")
    source = ("--learn-from", dataset, "--replay", dataset, "--learner", "ridge")
    command = ("tune", WORKLOAD, *source, *outputs, *arguments)
    return CliRunner().invoke(app, [str(argument) for argument in command], env={"COLUMNS": "160"})


def refused(result: Result, *texts: str) -> None:
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    for text in texts:
        assert text in result.stderr


@pytest.mark.parametrize(
    ("arguments", "objective"),
    [
        ((), Objective.make(ObjectiveName.WORST_REGRET, 3)),
        (("--objective", "mean"), Objective.make(ObjectiveName.MEAN, 3)),
        (
            ("--objective", "weighted", "--weights", "1,9,2"),
            Objective.make(ObjectiveName.WEIGHTED, 3, (2.0, 1.0, 9.0)),
        ),
    ],
)
def test_when_all_is_measured_the_best_of_all_kernels_is_chosen(
    dataset: Path, tmp_path: Path, latency_s: np.ndarray, arguments: tuple[str, ...], objective: Objective
) -> None:
    """Weights are given in the order of the budgets, whatever that is."""
    result = tune(dataset, tmp_path, "--sms", "96,132,8", "--trials", 999, *arguments)
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "tune.json").read_text())
    (chosen,) = report["chosen"]
    assert (chosen["from_sms"], chosen["to_sms"]) == (1, 132)
    best = latency_s[objective.regret(latency_s).argmin()]
    assert [chosen["latency_s"][str(sms)] for sms in SMS] == pytest.approx(best)
    assert "40 candidates measured, 40 screened" in result.stdout
    assert (tmp_path / "tune.png").read_bytes().startswith(b"\x89PNG")


def test_a_portfolio_is_written_as_a_dispatch_table(dataset: Path, tmp_path: Path) -> None:
    file = tmp_path / "dispatch.json"
    result = tune(dataset, tmp_path, "--portfolio", 2, "--trials", 12, "--dispatch", file)
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "tune.json").read_text())
    table = load_dispatch_table(file)
    assert 1 <= len(table.ranges) <= 2
    assert table.workload.name == WORKLOAD
    assert [part.config_id for part in table.ranges] == [part["config_id"] for part in report["chosen"]]
    recorded = {m.candidate.candidate_id for m in load_dataset(dataset).to_measurements(WORKLOAD)}
    assert {table.kernel_for(sms).candidate_id for sms in (1, 8, 20, 32, 64, 132)} <= recorded
    assert table.provenance.n_measurements == 12


def test_freed_sms_are_those_that_cost_less_than_allowed(
    dataset: Path, tmp_path: Path, latency_s: np.ndarray
) -> None:
    """On 96 SMs the best kernel costs a third more than on all, on 8 SMs eight times as much."""
    best = latency_s.min(axis=0)
    assert best[1] / best[2] < 1.4 < best[0] / best[2]
    for share, enough in (("40%", 96), ("1%", 132)):
        result = tune(dataset, tmp_path, "--free-sms", share, "--trials", 999)
        assert result.exit_code == 0, result.output
        free = json.loads((tmp_path / "tune.json").read_text())["free_sms"]
        assert (free["sms"], free["freed"]) == (enough, 132 - enough)
        assert free["cost"] == pytest.approx(best[SMS.index(enough)] / best[2] - 1.0)
        assert f"{enough} of 132 SMs are enough" in result.stdout
        assert not bare_words(result.stdout)


def test_a_page_is_written_for_one_budget_and_for_several(dataset: Path, tmp_path: Path) -> None:
    for budgets in ("96", "8,96"):
        page = tmp_path / f"{budgets}.html"
        result = tune(dataset, tmp_path, "--sms", budgets, "--trials", 4, "--report", page)
        assert result.exit_code == 0, result.output
        assert page.read_text(encoding="utf-8").count("<img ") == 3
        assert WORKLOAD in page.read_text(encoding="utf-8")


def test_a_study_goes_on(dataset: Path, tmp_path: Path) -> None:
    place = tmp_path / "study.log"
    common = ("--sms", "8,132", "--study", place)
    assert tune(dataset, tmp_path, *common, "--trials", 3).exit_code == 0
    first = json.loads((tmp_path / "tune.json").read_text())["trials"]
    assert tune(dataset, tmp_path, *common, "--trials", 5).exit_code == 0
    assert json.loads((tmp_path / "tune.json").read_text())["trials"][:3] == first


def test_one_device_of_several_is_replayed(tmp_path: Path) -> None:
    dataset = build(tmp_path, other_device=True)
    for name, arguments in (("landscape GPU", ()), ("other GPU", ("--device", "OTHER"))):
        result = tune(dataset, tmp_path, "--sms", "8,96", "--trials", 2, *arguments)
        assert result.exit_code == 0, result.output
        assert f"recorded measurements of {name} " in result.stdout
    refused(tune(dataset, tmp_path, "--device", "B200"), "landscape GPU, other GPU", "B200")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--sms", "8,8"), "distinct whole numbers"),
        (("--sms", "8.5"), "distinct whole numbers"),
        (("--sms", "8,x"), "positive numbers"),
        (("--sms", "8,33"), "33"),
        (("--sms", "8,96", "--objective", "best"), "worst-regret, mean, weighted"),
        (("--sms", "8,96", "--objective", "weighted"), "Weights must be given"),
        (("--sms", "8,96", "--objective", "weighted", "--weights", "1"), "one positive weight for each of 2"),
        (("--sms", "8,96", "--weights", "1,2"), "Weights must be given"),
        (("--sms", "8", "--objective", "mean"), "must be for several SM budgets"),
        (("--free-sms", "4 SMs"), "--free-sms must be a share"),
        (("--sms", "8", "--weights", "1"), "must be for several SM budgets"),
        (("--model", "m.costmodel"), "Leave one of them out"),
        (("--runner", "cpu"), "Leave one of them out"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    dataset: Path, tmp_path: Path, arguments: tuple[str, ...], text: str
) -> None:
    refused(tune(dataset, tmp_path, *arguments), text)


@pytest.mark.tvm
def test_one_kernel_for_two_thread_budgets_is_found_on_the_cpu(tmp_path: Path) -> None:
    pytest.importorskip("tvm")
    arguments = ("--runner", "cpu", "--sms", "1,2", "--trials", "3", "--screened", "500")
    outputs = ("--json", str(tmp_path / "tune.json"))
    result = CliRunner().invoke(app, ["tune", "matmul-m32-n32-k32", *arguments, *outputs])
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "tune.json").read_text())
    assert [platform["sms_granted"] for platform in report["platforms"]] == [1, 2]
    assert len(report["trials"]) == 3
    assert set(report["latency_s_by_sms"]["chosen"]) == {"1", "2"}
