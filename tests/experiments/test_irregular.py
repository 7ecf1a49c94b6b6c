"""The experiment in miniature, on latencies from a formula; nothing is measured."""

import itertools
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from experiment_folder import found_beside

from costmodel.dataset import CardHeader, Dataset, build_dataset
from costmodel.dataset.table._read import dataset_from_measurements
from costmodel.kernels._design_space import sample_from_starts
from costmodel.kernels._sources import open_sources
from costmodel.records import Candidate, Measurement, Outcome, RecordStore, Workload, find_device
from costmodel.records._measurement import KernelResources
from costmodel.records._platform import part_of

pytestmark = pytest.mark.white_box

FOLDER = Path(__file__).parents[2] / "experiments" / "irregular"
MODULES = ("run", "held_out", "choices", "intervals", "picture", "options")
WORKLOADS = [
    *(f"cuda.sparse_linear_float16-m16-n{n}-k512-s{s}-g32-v32-u1" for n in (256, 512) for s in (50, 90)),
    *(f"cuda.spike_delivery-n{n}-c10-r{r}-d2" for n in (2000, 5000) for r in (100, 10000)),
    *(f"cuda.lif_update-n{n}-r{r}" for n in (2000, 5000) for r in (100, 10000)),
    *(
        f"cuda.embedding_bag-r100000-d{d}-b64-l8-v1-h{h}-w200-x300-y500-z700"
        for d in (16, 64)
        for h in (2, 101)
    ),
]
HEADER = CardHeader("Formula", "For a test.", "A formula.", "None.", "CC0-1.0", "None.")
CSR_S = 5e-6
DEVICES = ("NVIDIA H100 80GB HBM3", "NVIDIA H200")


@pytest.fixture(autouse=True)
def folder_on_path() -> Iterator[None]:
    """The experiment's modules are found beside each other."""
    with found_beside(FOLDER, MODULES):
        yield


def rehearsed(*devices: str) -> Iterator[Measurement]:
    """Configs of each workload and the library's calls on each device, with times of a formula."""
    for name in WORKLOADS:
        workload = Workload.parse(name)
        for source in (each for each in open_sources(["cuda", "library"]) if each.makes(workload, "cuda")):
            for candidate in sample_from_starts(source.space(workload, "cuda"), 10, seed=0):
                for device, sms in itertools.product(devices, (8, 132)):
                    platform = part_of(find_device(device), sms)
                    yield Measurement(
                        candidate=candidate,
                        platform=platform,
                        outcome=Outcome.OK,
                        latencies_s=(formula_s(candidate, sms),) * 3,
                        runs_per_repeat=10,
                        resources=() if "call" in candidate.config.decisions else (KernelResources(32, 0),),
                        measured_at="2026-01-01T00:00:00+00:00",
                    )


def formula_s(candidate: Candidate, sms: int) -> float:
    """Of waves, operations and bytes; calls of PyTorch take as long whatever they are given."""
    if "call" in candidate.config.decisions:
        return CSR_S
    (launch,) = candidate.launches
    waves = -(-launch.blocks // sms)
    return 1e-6 * (1 + waves) + 1e-12 * launch.flops + 1e-12 * launch.global_load_bytes / sms


@pytest.fixture(scope="module")
def data() -> Dataset:
    return dataset_from_measurements(list(rehearsed("NVIDIA H200")))


def test_what_is_held_out_together(data: Dataset) -> None:
    known = import_module("held_out").known(data)
    of = {str(row.workload): row for row in known.itertuples()}
    half, tenth = of[WORKLOADS[0]], of[WORKLOADS[1]]
    assert half.shape == tenth.shape == "sparse_linear-n256-k512"
    assert half.distribution == "sparse_linear-s50-g32-v32-u1" != tenth.distribution
    assert of[WORKLOADS[5]].distribution == "cuda.spike_delivery-r10000-d2"
    assert of[WORKLOADS[12]].distribution == "embedding_bag-v1-h2-w200-x300-y500-z700"
    assert {"PyTorch, csr", "gather", "dense_tensor"} <= set(known["way"])


@pytest.mark.parametrize("by", ["shape", "distribution", "sms"])
def test_no_row_is_predicted_by_what_learned_from_its_group(data: Dataset, by: str) -> None:
    held_out = import_module("held_out")
    known = held_out.known(data)
    fold = held_out._folds(known, by, 2)
    groups = {value: set(fold[known[by] == value]) for value in known[by].unique() if by != "sms"}
    assert all(len(folds) == 1 for folds in groups.values())
    for _, rows in known.assign(fold=fold).groupby("family"):
        assert rows["fold"].nunique() == 2


def task(**ways: list[float]) -> pd.DataFrame:
    """A task with so many kernels of each way, by their latencies."""
    rows = [(way, seconds) for way, each in ways.items() for seconds in each]
    place = {"task": "t", "workload": "w", "family": "f", "sms_granted": 8, "shape": "s", "distribution": "d"}
    return pd.DataFrame([{**place, "way": way, "latency_s": seconds} for way, seconds in rows])


def test_a_way_is_right_where_its_best_kernel_is_as_good_and_regret_is_of_the_kernel() -> None:
    choices = import_module("choices")
    rows = task(dense=[1.0, 3.0], gather=[1.005, 2.0], csr=[1.5], bsr=[1.02])
    found = {name: next(choices.chosen(rows, name, lambda _, i=i: i)) for i, name in enumerate("abcdef")}
    assert [found[name]["right"] for name in "abcde"] == [True, True, True, True, False]
    assert [found[name]["regret"] for name in "abcde"] == pytest.approx([0.0, 2.0, 0.005, 1.0, 0.5])
    assert [found[name]["near"] for name in "def"] == [True, False, True]
    assert not found["f"]["right"]
    assert found["e"]["best_way"] == "dense"


def test_a_way_that_failed_is_never_taken_and_tasks_without_it_are_left_out() -> None:
    choices = import_module("choices")
    rows = task(dense=[1.0], csr=[np.inf])
    assert list(choices.chosen(rows, "cuSPARSE", choices.always("csr"))) == []
    assert list(choices.chosen(task(dense=[np.inf]), "x", lambda _: 0)) == []


def test_the_gain_of_sparse_kernels_is_that_of_the_best_of_each() -> None:
    rows = task(dense=[3.0, 2.0], library=[4.0], gather=[1.0, 5.0], csr=[np.inf])
    found = import_module("choices").sparse_gain(rows, ["dense", "library"])
    assert found == [{"workload": "w", "8 SMs": 2.0}]


def test_genn_s_block_size_is_taken_of_the_default(data: Dataset) -> None:
    held_out, choices = map(import_module, ("held_out", "choices"))
    known = held_out.known(data)
    own = known[known["kind"] == "cuda.spike_delivery"]
    found = list(choices.chosen(own, "GeNN", choices.block_size_by_occupancy(data)))
    assert len(found) == 8
    assert {row["way"] for row in found} == {"push"}


def said_of(family: str, way: str, std: float, rng: np.random.Generator) -> pd.DataFrame:
    """60 workloads in six folds, of which a model is off by so much."""
    of = np.repeat(np.arange(60), 40)
    off = std * (0.3 * rng.normal(size=60)[of] + rng.normal(size=of.size))
    return pd.DataFrame(
        {
            "workload": [f"{family}-{each}" for each in of],
            "family": family,
            "kind": family,
            "way": way,
            "sms_granted": np.tile([8, 132], of.size // 2),
            "fold": of % 6,
            "latency_s": 1e-6 * np.exp(off),
            "predicted_s": 1e-6,
        }
    )


def test_intervals_hold_for_each_kind_of_workload_that_is_calibrated_by_itself() -> None:
    rng = np.random.default_rng(0)
    kinds = (("bags", "push", 0.02), ("spikes", "push", 0.5), ("spikes", "PyTorch, eager", 1.5))
    rows = import_module("intervals").coverages(pd.concat([said_of(*kind, rng) for kind in kinds]))
    covered = {(row["calibrated_by"], row["of"]): row["covered"] for row in rows}
    apart = "family and calls"
    assert all(0.86 <= covered[apart, of] <= 0.96 for of in ("bags", "spikes", "PyTorch's calls", "all"))
    assert covered["all together", "bags"] == 1.0
    assert covered["all together", "PyTorch's calls"] < 0.8
    width = {(row["calibrated_by"], row["of"]): row["width"] for row in rows}
    assert width[apart, "bags"] < width[apart, "spikes"] < width[apart, "PyTorch's calls"]


def test_the_whole_experiment(tmp_path: Path) -> None:
    store, folder = tmp_path / "records.jsonl", tmp_path / "data"
    with RecordStore(store) as records:
        records.append(list(rehearsed(*DEVICES)))
    build_dataset([store], folder, header=HEADER)
    out = tmp_path / "result.json"
    options = [
        "--dataset",
        str(folder),
        "--learner",
        "kernel-ridge",
        "--elsewhere",
        "known-elsewhere",
        "--best",
        "kernel-ridge",
        "--folds",
        "2",
    ]
    parts = [part for part in import_module("run").PARTS if part != "another device"]
    one = ["--device", "NVIDIA H200", "--parts", *parts, "--plots", str(tmp_path)]
    both = ["--device", *DEVICES, "--parts", "another device"]
    for devices in (one, both):
        import_module("run").main([*options, "--json", str(out), *devices])
    found = json.loads(out.read_text())
    assert set(found) == {*parts, "another device"}
    assert all(row["median_error"] < 0.01 for row in found["another device"]["latency"])
    assert found["another device"]["sparse_linear"][0]["mean_regret"] == pytest.approx(0.0, abs=0.01)
    ways = {row["chosen_by"]: row for row in found["pruned layers"]["shape"]}
    assert set(ways) == {"kernel-ridge", "cuBLAS, dense", "cuSPARSE"}
    assert ways["cuSPARSE"]["no slower than cuSPARSE"] == 1.0
    assert ways["cuBLAS, dense"]["mean_regret"] == ways["cuSPARSE"]["mean_regret"] > 0
    assert ways["kernel-ridge"]["mean_regret"] < ways["cuSPARSE"]["mean_regret"]
    assert {row["workload"] for row in found["borders"]["gain"]} == set(WORKLOADS[:4])
    import_module("run").main([*options, "--parts", "borders", "--json", str(out)])
    assert json.loads(out.read_text()) == found
    assert {row["learner"] for row in found["lookups"]["sms"]} == {"known-elsewhere"}
    spiking = found["spiking networks"]
    assert {
        "spike_delivery, way, shape",
        "spike_delivery, threads, distribution",
        "lif_update, way, shape",
    } <= set(spiking)
    variants, threads = (spiking[f"spike_delivery, {what}, shape"][0] for what in ("way", "threads"))
    assert threads["right"] <= variants["right"]
    assert threads["mean_regret"] == variants["mean_regret"]
    assert {row["family"] for row in found["latencies"]["sms"]} >= {"sparse_linear", "embedding_bag"}
    assert all(row["kernels"] > 0 for row in found["lookups"]["distribution"])
    assert {row["of"] for row in found["intervals"]["shape"]} >= {"embedding_bag", "PyTorch's calls", "all"}
