import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from costmodel.errors import CostModelError, InvalidConfigError, MissingExtraError
from costmodel.kernels.library._source import LibrarySource, LibrarySpace
from costmodel.records import Candidate, Config, Outcome, Workload
from costmodel.records._candidate import KernelLaunch

pytestmark = pytest.mark.white_box

PRODUCT = Workload.parse("matmul_bias_relu-m64-n48-k32-float16")


@pytest.fixture
def space() -> LibrarySpace:
    return LibrarySpace(PRODUCT, "cuda")


@dataclass
class LastChoice:
    """A trial that takes the last choice of all, and notes them."""

    asked: dict[str, tuple[Any, ...]]

    def suggest_categorical(self, name: str, choices: Any) -> Any:
        self.asked[name] = tuple(choices)
        return self.asked[name][-1]


def calls(name: str, kind: Any) -> list[set[Any]]:
    return [set(sketch.choices["call"]) for sketch in LibrarySpace(Workload.parse(name), kind).sketches]


@pytest.mark.parametrize(
    ("name", "on_a_gpu", "on_a_cpu"),
    [
        ("matmul-m8-n8-k8", [{"eager"}, {"cublaslt"}], [{"eager"}]),
        ("matmul_bias-m8-n8-k8", [{"eager", "addmm"}, {"cublaslt"}], [{"eager", "addmm"}]),
        ("matmul_relu-m8-n8-k8", [{"eager"}, {"cublaslt"}], [{"eager"}]),
        ("batch_matmul_add-b2-m8-n8-k8", [{"eager", "addmm"}], [{"eager", "addmm"}]),
        ("conv2d_bias-n1-c8-h8-w8-o8-k3-s1", [{"eager", "cudnn_benchmark"}], [{"eager"}]),
        ("depthwise_conv2d_nhwc-n1-c8-h8-w8-k3-s1", [{"eager", "cudnn_benchmark"}], [{"eager"}]),
        ("softmax-m8-n8", [{"eager"}], [{"eager"}]),
    ],
)
def test_calls_of_an_operator(name: str, on_a_gpu: list[set[str]], on_a_cpu: list[set[str]]) -> None:
    assert calls(name, "cuda") == on_a_gpu
    assert calls(name, "cpu") == on_a_cpu


def test_equal_names_mean_equal_spaces(space: LibrarySpace) -> None:
    assert space.name.startswith("library-cuda-")
    assert space.name == LibrarySpace(Workload.parse("matmul_add-m8-n8-k8"), "cuda").name
    assert space.name != LibrarySpace(Workload.parse("matmul-m8-n8-k8"), "cuda").name
    assert space.name != LibrarySpace(PRODUCT, "cpu").name


def test_every_config_has_parameters_of_its_own(space: LibrarySpace) -> None:
    every = [config for sketch in space.sketches for config in sketch.configs]
    assert len(every) == 2 + 8 * 7
    assert len({config.config_id for config in every}) == len(every)
    known = space.parameters()
    for config in every:
        params = space.params(config)
        assert space.config(params) == config
        assert all(value in known[name] for name, value in params.items())
        assert space.candidate(config) == Candidate(PRODUCT, space.name, config)


def test_a_trial_decides_what_its_call_has(space: LibrarySpace) -> None:
    trial = LastChoice({})
    assert space.suggest(trial) == Config({"call": "cublaslt", "algorithm": 7, "sm_target": 96})
    assert {name: space.parameters()[name] for name in trial.asked} == trial.asked
    assert set(trial.asked) == {"sketch", "1.call", "1.algorithm", "1.sm_target"}


def test_draws_reach_every_config_of_a_sketch(space: LibrarySpace) -> None:
    for position, sketch in enumerate(space.sketches):
        batch = space.draw(position, 2000, np.random.default_rng(0))
        assert {config.config_id for config in batch.configs()} == {c.config_id for c in sketch.configs}
    sampled = {space.sample(np.random.default_rng(seed)).decisions["call"] for seed in range(64)}
    assert sampled == {"eager", "addmm", "cublaslt"}


def test_a_mutation_changes_one_decision(space: LibrarySpace) -> None:
    rng = np.random.default_rng(0)
    config = Config({"call": "cublaslt", "algorithm": 3, "sm_target": 32})
    for _ in range(50):
        changed = space.mutate(config, rng)
        assert sum(changed.decisions[name] != value for name, value in config.decisions.items()) == 1
        space.candidate(changed)
    assert space.mutate(Config({"call": "eager"}), rng) == Config({"call": "addmm"})
    alone = LibrarySpace(Workload.parse("softmax-m8-n8"), "cuda")
    assert alone.mutate(Config({"call": "eager"}), rng) == Config({"call": "eager"})


def test_what_is_no_call_of_the_workload_is_refused(space: LibrarySpace) -> None:
    with pytest.raises(InvalidConfigError, match="eager, addmm, cublaslt"):
        space.candidate(Config({"call": "cudnn_benchmark"}))
    with pytest.raises(InvalidConfigError):
        space.candidate(Config({"call": "cublaslt", "algorithm": 3, "sm_target": 31}))
    with pytest.raises(CostModelError, match=r"0\.call"):
        space.config({"sketch": 0, "0.call": "cublaslt"})


def test_nothing_is_known_of_launches(space: LibrarySpace) -> None:
    launches = space.launches(space.draw(1, 5, np.random.default_rng(0)))
    assert set(launches) == {field.name for field in msgspec.structs.fields(KernelLaunch)}
    assert all(values.shape == (5, 1) and np.isnan(values).all() for values in launches.values())


def test_a_build_notes_the_call_and_is_the_same_again(space: LibrarySpace, tmp_path: Path) -> None:
    source = LibrarySource()
    candidate = space.candidate(Config({"call": "cublaslt", "algorithm": 2, "sm_target": 16}))
    built = source.build(candidate, "cuda", "sm_90", tmp_path)
    assert built.library == tmp_path / f"{candidate.candidate_id}{source.artifact}"
    assert msgspec.json.decode(built.library.read_bytes()) == {
        "workload": PRODUCT.name,
        "call": "cublaslt",
        "choices": {"algorithm": 2, "sm_target": 16},
    }
    assert source.build(candidate, "cuda", "sm_90", tmp_path) == built


def test_a_call_that_the_device_does_not_have_is_not_built(tmp_path: Path) -> None:
    space = LibrarySpace(Workload.parse("conv2d-n1-c8-h8-w8-o8-k3-s1"), "cuda")
    candidate = space.candidate(Config({"call": "cudnn_benchmark"}))
    built = LibrarySource().build(candidate, "cpu", "", tmp_path)
    assert built.outcome is Outcome.INVALID_CONFIG
    assert "cudnn_benchmark" in built.error
    assert not list(tmp_path.iterdir())


def test_without_pytorch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    source = LibrarySource()
    assert source.makes(PRODUCT, "cuda")
    with pytest.raises(MissingExtraError, match=r"\[torch\]"):
        source.check_installed("cuda")


def test_kernels_of_others_are_none_of_its() -> None:
    assert not LibrarySource().makes(Workload.parse("kernel_tuner.gemm-x64"), "cuda")
