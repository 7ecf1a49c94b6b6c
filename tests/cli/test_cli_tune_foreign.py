"""Kernels of other suites: one on several GPUs, several in one dataset, a new GPU; tuned and predicted."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_caches import fake_cache, write_cache
from typer.testing import CliRunner, Result

from costmodel.cli._app import app
from costmodel.dataset import CardHeader, build_dataset, load_dataset

pytestmark = pytest.mark.white_box

HEADER = CardHeader("Caches", "For tests.", "A formula.", "Not real.", "CC0-1.0", "Nobody, 2026.")
OLD, NEW = ("NVIDIA A", "NVIDIA B"), "NVIDIA C"
CONVOLUTION, GEMM = "convolution_kernel", "gemm"


def cache(device: str, kernel: str, seed: int) -> dict[str, Any]:
    """A cache whose fast configs are much the same on each device; too unlike a copy for twins."""
    made = fake_cache(device)
    made["kernel_name"] = kernel
    rng = np.random.default_rng(seed)
    for entry in made["cache"].values():
        if "times" in entry:
            entry["times"] = [time * np.exp(0.1 * rng.normal()) for time in entry["times"][:1]]
            entry["time"] = entry["times"][0]
    return made


def build(folder: Path, name: str, *measured: tuple[str, str]) -> Path:
    files = [
        write_cache(folder / f"{name}-{i}.json", cache(device, kernel, seed=hash_of(device, kernel)))
        for i, (device, kernel) in enumerate(measured)
    ]
    build_dataset(files, folder / name, header=HEADER)
    return folder / name


def hash_of(device: str, kernel: str) -> int:
    return sum(map(ord, device + kernel))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("caches")


@pytest.fixture(scope="module")
def three_gpus(folder: Path) -> Path:
    """One kernel on three GPUs."""
    return build(folder, "three", *((device, CONVOLUTION) for device in (*OLD, NEW)))


@pytest.fixture(scope="module")
def history(folder: Path) -> Path:
    """Two kernels on two GPUs."""
    return build(folder, "history", *((device, kernel) for device in OLD for kernel in (CONVOLUTION, GEMM)))


@pytest.fixture(scope="module")
def new_gpu(folder: Path) -> Path:
    """The same two kernels on a third."""
    return build(folder, "new", (NEW, CONVOLUTION), (NEW, GEMM))


def name_of(dataset: Path, kernel: str) -> str:
    return next(name for name in load_dataset(dataset).workloads if kernel in name)


def costmodel(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "160"})


def tuned(tmp_path: Path, *arguments: object) -> dict[str, Any]:
    """The JSON of a search that must succeed."""
    outputs = ("--plot", tmp_path / "tune.png", "--json", tmp_path / "tune.json")
    result = costmodel("tune", *arguments, "--learner", "ridge-on-sources", *outputs)
    assert result.exit_code == 0, result.output
    report: dict[str, Any] = json.loads((tmp_path / "tune.json").read_text())
    return report


def latencies(dataset: Path, workload: str, device: str) -> list[float]:
    rows = load_dataset(dataset).rows.query("workload == @workload and device == @device")
    return sorted(rows["latency_s"])


def test_one_kernel_on_several_gpus_learns_from_the_others(three_gpus: Path, tmp_path: Path) -> None:
    kernel = name_of(three_gpus, CONVOLUTION)
    source = ("--learn-from", three_gpus, "--replay", three_gpus, "--device", NEW)
    report = tuned(tmp_path, kernel, *source, "--trials", 2)
    assert report["provenance"]["knowledge"]["trained_on"] == "this one on 2 other devices of three"
    assert report["platforms"][0]["device"]["name"] == NEW
    # Ten configs run: by chance two trials would find one of the three fastest every other time.
    assert report["best"]["latency_s"][0] <= latencies(three_gpus, kernel, NEW)[2]


def test_the_device_itself_is_not_learned_from(folder: Path, tmp_path: Path) -> None:
    alone = build(folder, "alone", (NEW, CONVOLUTION))
    report = tuned(tmp_path, name_of(alone, CONVOLUTION), "--learn-from", alone, "--replay", alone)
    assert report["provenance"]["knowledge"]["trained_on"] == "nothing"


def test_a_history_and_a_new_gpu_in_one_command(history: Path, new_gpu: Path, tmp_path: Path) -> None:
    for kernel in (CONVOLUTION, GEMM):
        workload = name_of(new_gpu, kernel)
        report = tuned(tmp_path, workload, "--learn-from", history, "--replay", new_gpu, "--trials", 3)
        trained_on = report["provenance"]["knowledge"]["trained_on"]
        assert trained_on == "this one on 2 other devices of history"
        assert report["best"]["latency_s"][0] <= latencies(new_gpu, workload, NEW)[2]


def test_a_model_of_the_other_gpus_is_used(history: Path, new_gpu: Path, tmp_path: Path) -> None:
    """It learned from two kernels: the columns of the other are in it, too."""
    file = tmp_path / "old.costmodel"
    trained = costmodel("train", history, "--out", file, "--learner", "ridge-on-sources")
    assert trained.exit_code == 0, trained.output
    workload = name_of(new_gpu, CONVOLUTION)
    outputs = ("--plot", tmp_path / "tune.png", "--json", tmp_path / "tune.json")
    found = costmodel("tune", workload, "--model", file, "--replay", new_gpu, "--trials", 3, *outputs)
    assert found.exit_code == 0, found.output
    report = json.loads((tmp_path / "tune.json").read_text())
    assert report["provenance"]["knowledge"]["trained_on"] == "2 workloads on 2 devices"
    assert report["best"]["latency_s"][0] <= latencies(new_gpu, workload, NEW)[2]


@pytest.mark.parametrize("kernel", [CONVOLUTION, GEMM])
def test_a_model_of_several_kernels_predicts_each(
    history: Path, new_gpu: Path, tmp_path: Path, kernel: str
) -> None:
    file, written = tmp_path / "old.costmodel", tmp_path / "ranking.json"
    assert costmodel("train", history, "--out", file, "--learner", "ridge-on-sources").exit_code == 0
    workload = name_of(new_gpu, kernel)
    result = costmodel(
        "model", "predict", file, workload, new_gpu, "--device", OLD[0], "--top", 12, "--json", written
    )
    assert result.exit_code == 0, result.output
    ranked = [row["candidate_id"] for row in json.loads(written.read_text())["kernels"]]
    assert len(ranked) == 12
    data = load_dataset(history)
    rows = data.rows.query("workload == @workload and device == @OLD[0]").sort_values("latency_s")
    fastest = [data.candidates[i].candidate_id for i in rows["candidate"]]
    assert set(ranked[:3]) & set(fastest[:1])


def test_a_model_of_other_kernels_is_refused(new_gpu: Path, folder: Path, tmp_path: Path) -> None:
    """Nothing of this kernel's parameters is known to it."""
    other = build(folder, "gemm-only", (OLD[0], GEMM), (OLD[1], GEMM))
    file = tmp_path / "gemm.costmodel"
    assert costmodel("train", other, "--out", file, "--learner", "ridge-on-sources").exit_code == 0
    workload = name_of(new_gpu, CONVOLUTION)
    for command in (
        ("tune", workload, "--model", file, "--replay", new_gpu),
        ("model", "predict", file, workload, new_gpu, "--device", OLD[0]),
    ):
        result = costmodel(*command)
        assert result.exit_code == 2
        assert "feature columns" in result.stderr


@pytest.mark.parametrize("source", ["nothing", "h100-sm-budgets"])
def test_without_a_history_of_its_kind_a_kernel_is_tuned_from_nothing(
    new_gpu: Path, tmp_path: Path, source: str
) -> None:
    report = tuned(tmp_path, name_of(new_gpu, GEMM), "--learn-from", source, "--replay", new_gpu)
    assert report["provenance"]["knowledge"]["trained_on"] == "nothing"
    best_s = latencies(new_gpu, name_of(new_gpu, GEMM), NEW)[0]
    assert report["best"]["latency_s"] == pytest.approx([best_s])


@pytest.mark.parametrize(
    ("named", "offered"), [("kernel", (CONVOLUTION, GEMM)), ("zzz", (CONVOLUTION, GEMM)), ("gem", (GEMM,))]
)
def test_of_several_kernels_the_user_names_one(new_gpu: Path, named: str, offered: tuple[str, ...]) -> None:
    result = costmodel("tune", named, "--replay", new_gpu)
    assert result.exit_code == 2
    assert all(name_of(new_gpu, kernel) in result.stderr for kernel in offered)
