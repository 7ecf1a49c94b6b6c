"""Kernels of a campaign chosen beforehand: by the model, once, and what a run then measures."""

from pathlib import Path

import numpy as np
import pytest
from fake_records import fake_measurements
from msgspec.structs import replace

import costmodel
from costmodel.collector import CampaignConfig, find_campaign
from costmodel.collector.campaign._config import KernelPlan
from costmodel.collector.campaign._folder import CampaignFolder
from costmodel.dataset import build_dataset, load_dataset
from costmodel.dataset._machine_code import write_machine_code
from costmodel.dataset.publish._card import CardHeader
from costmodel.dataset.table._read import dataset_from_measurements
from costmodel.errors import CostModelError
from costmodel.kernels import open_space
from costmodel.kernels._design_space import sample
from costmodel.kernels._machine_code import MACHINE_CODE_FACTS, MachineCode, machine_code
from costmodel.kernels.metaschedule._source import compile_cubin
from costmodel.records import Candidate, Device, RecordStore, Workload, find_device
from costmodel.records._platform import part_of
from costmodel.search import KernelSpace
from costmodel.search._propose import screen_candidates
from costmodel.search.spaces._pool import features_on
from costmodel.testing import gpu_landscape
from costmodel.transfer import Model, load_model
from costmodel.tuning import collect, propose
from costmodel.tuning._training import train_compiled

pytestmark = pytest.mark.white_box

CONFIG = CampaignConfig(
    runner="cuda",
    workloads=("matmul-m48-n80-k96", "softmax-m64-n100"),
    sms=(8, 132),
    kernels=KernelPlan(random=2, rounds=1, per_round=4, good_at=(8, 132)),
)
H100 = "NVIDIA H100 80GB HBM3"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "ridge.costmodel"
    costmodel.train("h100-sm-budgets", "ridge").save(path)
    return path


def searched(loaded: Model, name: str) -> KernelSpace:
    """The space of a workload on two parts of an H100."""
    platforms = [part_of(find_device(H100), sms) for sms in (8, 132)]
    return KernelSpace(open_space(Workload.parse(name), "cuda"), *platforms, columns=loaded.metadata.columns)


def predicted_s(loaded: Model, space: KernelSpace, candidates: list[Candidate]) -> np.ndarray:
    """``(n, b)`` seconds that the model expects."""
    features = space.features([each.config for each in candidates])
    return np.stack([np.exp(-loaded.model.predict(features[:, i]).score) for i in range(2)], axis=1)


@pytest.mark.tvm
def test_what_is_screened_is_expected_to_be_better_than_what_is_drawn(model: Path) -> None:
    loaded = load_model(model)
    space = searched(loaded, "matmul-m256-n320-k512")
    drawn = sample(space.space, 30, seed=1)
    chosen = screen_candidates(space, loaded.model, 6, seed=3, known=drawn)
    assert len({each.candidate_id for each in chosen}) == 6
    assert not {each.candidate_id for each in chosen} & {each.candidate_id for each in drawn}
    assert len({space.space.program_hash(each.config) for each in chosen}) == 6
    best = predicted_s(loaded, space, drawn).min(axis=0)
    found = predicted_s(loaded, space, chosen)
    # Budgets take turns: the first of each is better there than the best of 30 random ones.
    assert found[0, 0] < best[0]
    assert found[1, 1] < best[1]
    assert screen_candidates(space, loaded.model, 6, seed=3, known=drawn) == chosen
    assert screen_candidates(space, loaded.model, 6, seed=4, known=drawn) != chosen


@pytest.mark.tvm
def test_a_space_with_fewer_programs_gives_fewer(model: Path) -> None:
    loaded = load_model(model)
    space = searched(loaded, "softmax-m2-n2")
    chosen = screen_candidates(space, loaded.model, 60, seed=0)
    assert 0 < len(chosen) < 60
    assert len({each.candidate_id for each in chosen}) == len(chosen)


@pytest.mark.tvm
def test_rounds_are_written_once_and_a_second_call_goes_on(model: Path, tmp_path: Path) -> None:
    found = propose(CONFIG, tmp_path, model, device=H100, workers=1)
    assert found.kernels == dict.fromkeys(CONFIG.workloads, 6)
    assert found.failed == {}
    files = {path.name: path.read_bytes() for path in tmp_path.glob("proposals/*")}
    one, other = CONFIG.workloads
    assert files.keys() == {f"{name}.{round_}.json" for name in CONFIG.workloads for round_ in (0, 1)}
    workload = Workload.parse(one)
    random = sample(open_space(workload, "cuda"), 2, CONFIG.draw_seed(workload, 0))
    assert CampaignFolder(tmp_path).proposals(workload, 0) == random
    # The first round of one is damaged, the second of the other was not written.
    (tmp_path / "proposals" / f"{one}.0.json").write_text("{")
    (tmp_path / "proposals" / f"{other}.1.json").unlink()
    again = propose(CONFIG, tmp_path, model, device=H100, workers=1)
    assert again.kernels == {one: 0, other: 6}
    assert again.failed.keys() == {one}
    assert {path.name: path.read_bytes() for path in tmp_path.glob("proposals/*")} == {
        **files,
        f"{one}.0.json": b"{",
    }


@pytest.mark.tvm
def test_a_run_measures_what_was_chosen(tmp_path: Path) -> None:
    cpu = part_of(Device("a CPU", "cpu", "x86_64", 2, 3000.0))
    data = dataset_from_measurements(replace(each, platform=cpu) for each in fake_measurements())
    costmodel.train(data, "ridge").save(tmp_path / "ridge.costmodel")
    config = CampaignConfig(
        runner="cpu",
        sms=(1,),
        workloads=("matmul-m24-n16-k16", "softmax-m16-n32"),
        kernels=KernelPlan(random=1, rounds=1, per_round=2, good_at=(1,)),
        repeat_share=0.0,
    )
    chosen = propose(config, tmp_path / "out", tmp_path / "ridge.costmodel", workers=1)
    assert chosen.kernels == dict.fromkeys(config.workloads, 3)
    before = {path: path.read_bytes() for path in tmp_path.glob("out/proposals/*")}
    result = collect(config, tmp_path / "out")
    assert (result.finished, result.outcomes) == (True, {"ok": 6})
    assert {path: path.read_bytes() for path in tmp_path.glob("out/proposals/*")} == before


def skip_without_toolkit() -> None:
    """NVRTC compiles TVM's kernels with the headers of the CUDA toolkit."""
    pytest.importorskip("cuda.bindings.nvrtc")
    from tvm.support import nvcc

    try:
        nvcc.compile_cuda("#include <cuda_fp16.h>", target_format="cubin", arch="sm_90", compiler="nvrtc")
    except RuntimeError as error:
        pytest.skip(f"needs the CUDA toolkit: {error}")


@pytest.mark.tvm
def test_where_no_kernel_can_be_compiled_the_reason_is_told(
    model: Path, compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))  # where TVM looks for the toolkit
    config = replace(CONFIG, workloads=CONFIG.workloads[:1], kernels=replace(CONFIG.kernels, per_round=1))
    found = propose(config, tmp_path / "out", model, compiled=compiled, workers=1)
    (reason,) = found.failed.values()
    assert "must be compiled, but none can be: " in reason


@pytest.fixture
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that takes kernels of few instructions for fast ones, as if it had learned that on an H100."""
    folder = tmp_path_factory.mktemp("compiled")
    landscape = gpu_landscape(seed=3, workloads=["matmul-m64-n768-k768"], configs_per_workload=12, sms=[132])
    with RecordStore(folder / "records.jsonl") as store:
        store.append(landscape.to_measurements())
    header = CardHeader("Some", "Some.", "-", "-", "-", "-")
    built = build_dataset([folder / "records.jsonl"], folder / "built", header=header).path
    ones = dict.fromkeys(MACHINE_CODE_FACTS, 1.0)
    slow = landscape.rows.groupby("candidate")["latency_s"].min()
    code = {
        landscape.columns.ids[i]: MachineCode(**{**ones, "instructions": min(1e9, latency_s * 1e9)})
        for i, latency_s in slow.items()
    }
    write_machine_code(built, code)
    model = train_compiled(load_dataset(built), "ridge")
    about = replace(model.metadata, devices=(find_device(H100),))
    Model(model.model, about).save(folder / "compiled.costmodel")
    return folder / "compiled.costmodel"


@pytest.mark.tvm
def test_a_model_of_compiled_kernels_chooses_among_what_decisions_name(
    model: Path, compiled: Path, tmp_path: Path
) -> None:
    skip_without_toolkit()
    (name, _), plan = CONFIG.workloads, replace(CONFIG.kernels, per_round=1)
    config = replace(CONFIG, workloads=(name,), kernels=plan)
    assert propose(config, tmp_path, model, compiled=compiled, workers=1).failed == {}
    folder, workload = CampaignFolder(tmp_path), Workload.parse(name)
    (random, chosen) = (folder.proposals(workload, round_) for round_ in (0, 1))
    space, loaded = searched(load_model(model), name), load_model(compiled)
    seed = config.draw_seed(workload, 1)
    named = screen_candidates(space, load_model(model).model, 4, seed, known=random)
    code = [machine_code(compile_cubin(each, "sm_90")) for each in named]
    known = dict(zip([each.candidate_id for each in named], code, strict=True))
    first = features_on(space.platforms[:1], named, loaded.metadata.columns, known)[:, 0]
    assert len(chosen) == 1
    assert chosen[0] == named[int(loaded.model.predict(first).score.argmax())]


def test_a_model_of_other_machine_code_is_refused(model: Path, tmp_path: Path) -> None:
    loaded = load_model(model)
    older = replace(find_device(H100), architecture="sm_80")
    Model(loaded.model, replace(loaded.metadata, devices=(older,))).save(tmp_path / "older.costmodel")
    with pytest.raises(CostModelError, match=r"must have learned from sm_90.* but .*older.* from sm_80"):
        propose(CONFIG, tmp_path / "out", model, compiled=tmp_path / "older.costmodel", device=H100)
    assert not (tmp_path / "out").exists()


def test_a_device_of_another_kind_is_refused(model: Path, tmp_path: Path) -> None:
    cpu = replace(CONFIG, runner="cpu")
    with pytest.raises(CostModelError, match=r"a cpu campaign measures on, but got NVIDIA H100 .* runs cuda"):
        propose(cpu, tmp_path / "out", model, device=H100)
    assert not (tmp_path / "out").exists()


def test_a_campaign_measures_families_of_ones_own(model: Path, tmp_path: Path) -> None:
    families = (str(Path(__file__).parents[1] / "kernels" / "triton_kernels" / "own" / "scale"),)
    config = replace(CONFIG, workloads=("triton.scale-m64-n1000",), sources=("triton",), families=families)
    assert propose(config, tmp_path / "out", model, workers=1).kernels == {"triton.scale-m64-n1000": 6}
    with pytest.raises(CostModelError, match="scale-m64-n1000 must be something that triton can make"):
        find_campaign(replace(config, families=()))
    with pytest.raises(CostModelError, match=r"must be of the sources metaschedule, but .*scale is of tri"):
        find_campaign(replace(config, sources=("metaschedule",)))
