import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from fake_foreign import COLUMN_MAP, csv_text, fake_rows
from msgspec import structs
from typer.testing import CliRunner, Result

from costmodel.cli._app import app
from costmodel.dataset import ReadOptions, build_dataset, read_files
from costmodel.dataset.table._read import families_in
from costmodel.errors import CostModelError
from costmodel.features import extract
from costmodel.records import Candidate, RecordStore, hypothetical
from costmodel.testing import LANDSCAPE_DEVICE, gpu_landscape, landscape_platform
from costmodel.transfer import Model, load_model, make_model
from costmodel.tuning import _shipped, train
from costmodel.tuning._shipped import ShippedDataset

pytestmark = pytest.mark.white_box

WORKLOADS = ("matmul-m128-n768-k768", "matmul-m512-n512-k512", "matmul-m64-n2304-k768")


def costmodel(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["model", *map(str, arguments)], env={"COLUMNS": "160"})


@pytest.fixture(scope="module")
def data():
    return gpu_landscape(workloads=WORKLOADS, configs_per_workload=16, sms=(8, 132))


@pytest.fixture(scope="module")
def files(tmp_path_factory, data) -> dict[str, Path]:
    """A model with intervals, one without, and the candidates of one workload that both never saw."""
    folder = tmp_path_factory.mktemp("model")
    for name in ("kernel-ridge+intervals", "ridge"):
        train(data, name, hold_out=WORKLOADS[:1]).save(folder / name)
    held_out = [c for c in data.candidates if c.workload.name == WORKLOADS[0]]
    (folder / "new.jsonl").write_bytes(b"".join(msgspec.json.encode(c) + b"\n" for c in held_out))
    return {path.name: path for path in folder.iterdir()}


def test_of_failures_alone_nothing_can_be_learned(tmp_path) -> None:
    cache = {"device_name": "NVIDIA RTX A4000", "kernel_name": "scan", "problem_size": [64]}
    cache |= {"tune_params_keys": ["block"], "tune_params": {"block": [32, 64]}, "objective": "time"}
    cache["cache"] = {str(block): {"block": block, "time": "RuntimeFailedConfig"} for block in (32, 64)}
    (tmp_path / "A4000.json").write_text(json.dumps(cache))
    with pytest.raises(CostModelError, match=r"got none in 2: all failed\. Add measurements"):
        train(read_files([tmp_path / "A4000.json"]), "ridge")


def test_info_shows_the_card(files, tmp_path) -> None:
    written = tmp_path / "card.json"
    result = costmodel("info", files["kernel-ridge+intervals"], "--json", written)
    assert result.exit_code == 0, result.output
    for text in ("Conformal(Residual(KernelRidge))", "in memory", "score at 1", WORKLOADS[1], "numpy", "MB"):
        assert text in result.stdout.replace("_", " "), text
    card = json.loads(written.read_text())
    assert card["model"]["class"] == "Conformal"
    assert card["metadata"]["learner"] == "kernel-ridge+intervals"
    assert card["metadata"]["versions"]["numpy"] == np.__version__
    assert card["metadata"]["devices"][0]["name"] == LANDSCAPE_DEVICE.name


def test_predict_ranks_as_the_model_does(files, tmp_path) -> None:
    written = tmp_path / "ranking.json"
    model = files["kernel-ridge+intervals"]
    arguments = [model, WORKLOADS[0], files["new.jsonl"], "--sms", 8, "--top", 4]
    result = costmodel("predict", *arguments, "--json", written)
    assert result.exit_code == 0, result.output
    assert "landscape GPU/green_context/8: 16 kernels" in result.stdout
    kernels = json.loads(written.read_text())["kernels"]
    candidates = [
        msgspec.json.decode(line, type=Candidate) for line in files["new.jsonl"].read_bytes().splitlines()
    ]
    X = extract(candidates, [landscape_platform(8)] * 16).values
    expected = load_model(model).model.predict(X)
    best = np.argsort(-expected.score)[:4]
    assert [kernel["candidate_id"] for kernel in kernels] == [candidates[i].candidate_id for i in best]
    np.testing.assert_allclose([kernel["latency_s"] for kernel in kernels], expected.latency_s[best])
    for kernel in kernels:
        assert kernel["low_s"] < kernel["latency_s"] < kernel["high_s"]
        assert kernel["unfamiliarity"] >= 0.0


def test_a_model_without_intervals_leaves_them_out(files, tmp_path) -> None:
    written = tmp_path / "ranking.json"
    result = costmodel("predict", files["ridge"], WORKLOADS[0], files["new.jsonl"], "--json", written)
    assert result.exit_code == 0, result.output
    assert "interval" not in result.stdout
    document = json.loads(written.read_text())
    assert document["platform"] == "landscape GPU/whole/132"
    assert "low_s" not in document["kernels"][0]
    assert "unfamiliarity" not in document["kernels"][0]
    assert len(document["kernels"]) == 10


def test_a_device_never_measured_is_told_in_one_line(files) -> None:
    arguments = ["predict", files["ridge"], WORKLOADS[0], files["new.jsonl"]]
    result = costmodel(*arguments, "--device", "H200", "--sms", 8)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("never measured on this device") == 1
    assert "no interval" not in result.stdout, "a model without intervals"
    arguments[1] = files["kernel-ridge+intervals"]
    with_intervals = costmodel(*arguments, "--device", "H200", "--sms", 8).stdout
    assert with_intervals.count("no interval, as all that was learned from is of one architecture") == 1
    assert "90 % interval" not in with_intervals
    assert "never measured" not in costmodel(*arguments, "--device", LANDSCAPE_DEVICE.name).stdout


def test_a_device_of_ones_own_is_described_in_a_file(files, tmp_path) -> None:
    own = tmp_path / "own.toml"
    fields = structs.asdict(LANDSCAPE_DEVICE) | {"name": "my GPU", "sms": 64}
    lines = [f"{name} = {json.dumps(value)}" for name, value in fields.items()]
    own.write_text("\n".join(["[device]", *lines]))
    arguments = ["predict", files["ridge"], WORKLOADS[0], files["new.jsonl"], "--own", own]
    assert "my GPU/green_context/8: 16 kernels" in costmodel(*arguments, "--sms", 8).stdout
    own.write_text("\n".join(["[device]", *lines, "speed = 3"]))
    refused = costmodel(*arguments)
    assert refused.exit_code == 2
    assert "Its fields are name, kind" in refused.stderr


def test_configs_of_a_table_are_ranked(tmp_path) -> None:
    (tmp_path / "map.toml").write_text(COLUMN_MAP)
    (tmp_path / "runs.csv").write_text(csv_text(fake_rows()))
    data = read_files([tmp_path / "runs.csv"], ReadOptions(columns=tmp_path / "map.toml"))
    train(data, learner="consensus").save(tmp_path / "model")
    (tmp_path / "configs.csv").write_text("kernel,block_x,layout,tile\ngemm,16,row,4x1\ngemm,512,row,8x8\n")
    arguments = ["predict", tmp_path / "model", "suite.gemm-x4096", tmp_path / "configs.csv"]
    refused = costmodel(*arguments)
    assert refused.exit_code == 2
    assert "looks like a CSV file. With a map of its columns" in refused.stderr
    ranked = costmodel(*arguments, "--columns", tmp_path / "map.toml")
    assert ranked.exit_code == 0, ranked.output
    assert "2 kernels" in ranked.stdout
    assert "block=512 order=row tile=8x8" in ranked.stdout
    nothing = costmodel(*arguments[:3], "--columns", tmp_path / "map.toml")
    assert nothing.exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["ridge", "matmul-m1-n1-k1", "new.jsonl", "--device", "H200"],
            "must hold candidates of matmul-m1-n1-k1",
        ),
        (["ridge", "matmul-1", "new.jsonl", "--device", "H200"], "matmul-1"),
        (["ridge", WORKLOADS[0], "new.jsonl", "--device", "MI250X"], "cannot run on"),
        (["ridge", WORKLOADS[0], "new.jsonl", "--device", "Voodoo 2"], "Voodoo 2"),
        (
            ["ridge", WORKLOADS[0], "new.jsonl", "--device", "H200", "--sms", "999"],
            "from 1 to 132",
        ),
        (["new.jsonl", WORKLOADS[0], "new.jsonl", "--device", "H200"], "damaged or something else"),
        (["ridge", WORKLOADS[0], "ridge.jsonl", "--device", "H200"], "Cannot read"),
        (["ridge", WORKLOADS[0], "broken.jsonl", "--device", "H200"], "one candidate a line"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(files, arguments, message) -> None:
    folder = files["ridge"].parent
    (folder / "broken.jsonl").write_text('{"workload": 3}\n')
    named = [folder / a if a.endswith("jsonl") or a == "ridge" else a for a in arguments]
    result = costmodel("predict", *named)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_model_of_other_columns_is_refused(files, tmp_path) -> None:
    loaded = load_model(files["ridge"])
    model = make_model("ridge", ()).fit(np.zeros((2, 1)), np.array([1.0, 2.0]), np.zeros(2))
    Model(model, structs.replace(loaded.metadata, columns=("a",))).save(tmp_path / "other")
    result = costmodel("predict", tmp_path / "other", WORKLOADS[0], files["new.jsonl"], "--device", "H200")
    assert result.exit_code == 2
    assert "feature columns" in result.stderr


def test_a_sweep_of_hypothetical_devices_is_shown_drawn_and_written(files, data, tmp_path) -> None:
    written, drawn = tmp_path / "sweep.json", tmp_path / "sweep.png"
    model = files["kernel-ridge+intervals"]
    arguments = [model, WORKLOADS[0], files["new.jsonl"], "--sweep", "sms=100:200:50"]
    result = costmodel("predict", *arguments, "--json", written, "--plot", drawn)
    assert result.exit_code == 0, result.output
    assert "hypothetical, carried over from landscape GPU" in result.stdout
    rows = json.loads(written.read_text())["devices"]
    assert [row["sms"] for row in rows] == [100, 150, 200]
    for row in rows:
        assert f"{row['low_s'] * 1e6:,.1f} - {row['high_s'] * 1e6:,.1f} us" in result.stdout
    best = load_model(model).predict(
        WORKLOADS[0], kernels=files["new.jsonl"], device=hypothetical(LANDSCAPE_DEVICE, sms=200)
    )
    assert rows[2]["latency_s"] == pytest.approx(best["latency_s"][0])
    assert drawn.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sweep", "sms=1:8:1", "--sms", "8"], "name --sms or --sweep"),
        (["--plot", "x.png"], "--plot draws a sweep"),
        (["--sweep", "sms=8"], "NAME=FIRST:LAST:STEP"),
    ],
)
def test_sweep_options_that_make_no_sense_are_refused(files, options, message) -> None:
    result = costmodel("predict", files["ridge"], WORKLOADS[0], files["new.jsonl"], *options)
    assert result.exit_code != 0
    assert message in f"{result.output} {result.exception}"


def test_several_devices_have_a_row_each(files, tmp_path) -> None:
    written = tmp_path / "devices.json"
    options = ["--device", "landscape GPU", "--device", "H200", "--json", written]
    result = costmodel("predict", files["kernel-ridge+intervals"], WORKLOADS[0], files["new.jsonl"], *options)
    assert result.exit_code == 0, result.output
    rows = json.loads(written.read_text())["devices"]
    assert [each["device"] for each in rows] == ["landscape GPU", "H200"]
    alone = load_model(files["kernel-ridge+intervals"]).predict(WORKLOADS[0], kernels=files["new.jsonl"])
    assert rows[0]["latency_s"] == pytest.approx(alone["latency_s"].iloc[0])
    assert "never measured on this device" in rows[1]["note"]
    refused = costmodel("predict", files["ridge"], WORKLOADS[0], *options[:4], "--sweep", "sms=8:16:8")
    assert "are of one GPU" in f"{refused.output} {refused.exception}"


def test_calls_are_predicted_on_a_gpu_that_is_named() -> None:
    result = costmodel("predict", "calls", "matmul-m64-n64-k64-float16")
    assert result.exit_code == 2
    assert "name its --device, or" in f"{result.output} {result.exception}"


def test_products_in_float32_are_predicted_by_names_as_people_write_them() -> None:
    named = ["--device", "4090", "--device", "h100_sxm", "--device", "L4 24GB"]
    result = costmodel("predict", "calls", "matmul-m4096-n4096-k4096", *named)
    assert "3 devices: 3 predicted, 3 with an interval" in result.output


def test_each_of_several_devices_is_shown_once() -> None:
    named = ["--device", "L40S", "--device", "L40S", "--device", "MI300X"]
    result = costmodel("predict", "calls", "matmul-m64-n64-k64-float16", *named)
    assert "2 devices: 1 predicted" in result.output


@pytest.mark.parametrize(
    ("workload", "device", "message"),
    [
        ("matmul-m64-n64-k64-float16", "L40T", "costmodel devices list"),
        ("matmul-m64-n64-float16", "all", "Unknown workload 'matmul-m64-n64-float16'"),
        ("aiconfigurator.gemm.fp8-m64-n64-k64", "A30", "that multiplies fp8 must be"),
    ],
)
def test_what_no_device_or_no_workload_is_called_is_refused_in_a_list_too(
    workload: str, device: str, message: str
) -> None:
    result = costmodel("predict", "calls", workload, "--device", "Tesla T4", "--device", device)
    assert result.exit_code != 0
    assert message in f"{result.output} {result.exception}"


@pytest.fixture
def shipped(data, tmp_path, monkeypatch, header) -> Path:
    """A dataset that is all that ships, and a folder for its model."""
    with RecordStore(tmp_path / "records.jsonl") as store:
        store.append(data.to_measurements(WORKLOADS[1]))
    path = build_dataset([tmp_path / "records.jsonl"], tmp_path / "built", header=header).path
    monkeypatch.setattr(_shipped, "_installed", lambda: (ShippedDataset(str(path), families_in(path)),))
    monkeypatch.setattr(ShippedDataset, "model_file", tmp_path / "models" / "built.costmodel")
    monkeypatch.setenv(_shipped.MODELS_VARIABLE, str(tmp_path / "models"))
    return path


def test_predict_default_takes_the_model_that_train_made_of_what_ships(files, shipped, tmp_path) -> None:
    arguments = ["default", WORKLOADS[0], files["new.jsonl"], "--sms", 8, "--json", tmp_path / "ranking.json"]
    refused = costmodel("predict", *arguments)
    assert refused.exit_code == 2
    assert "Run `costmodel train`" in refused.output
    trained = CliRunner().invoke(app, ["train", "--json", str(tmp_path / "trained.json")])
    assert trained.exit_code == 0, trained.output
    assert "kernel-ridge learned from" in trained.output
    (about,) = json.loads((tmp_path / "trained.json").read_text()).values()
    assert about["workloads"] == [WORKLOADS[1]]
    result = costmodel("predict", *arguments)
    assert result.exit_code == 0, result.output
    expected = load_model(about["model"]).predict(WORKLOADS[0], sms=8, kernels=files["new.jsonl"])
    found = json.loads((tmp_path / "ranking.json").read_text())["kernels"]
    assert [each["candidate_id"] for each in found] == list(expected["candidate_id"][:10])


@pytest.mark.parametrize(
    "given", [["h100-sm-budgets"], ["--learner", "ridge"], ["--folds", "2"], ["--track"]]
)
def test_training_on_something_must_say_where_the_model_goes(given) -> None:
    result = CliRunner().invoke(app, ["train", *given])
    assert result.exit_code == 2
    assert "--out" in result.output
