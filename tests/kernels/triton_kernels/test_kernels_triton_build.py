"""Triton kernels from a config to machine code, by Triton's compiler, which needs no GPU."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

pytest.importorskip("triton")

import triton

from costmodel.kernels import TritonFamily
from costmodel.kernels._artifact import LaunchNote, PassedValue, Position, Scratch
from costmodel.kernels.family._check import check_family
from costmodel.kernels.triton._build import build_triton_family
from costmodel.kernels.triton._interpreter import interpret
from costmodel.kernels.triton._source import TritonSource, load_families
from costmodel.records import Candidate, Config, Outcome, Workload
from costmodel.testing import SOURCE_CHECKS, SourceCase
from costmodel.tuning import check_kernels

pytestmark = [pytest.mark.triton, pytest.mark.white_box]

OWN = Path(__file__).parent / "own" / "scale"
(SCALE,) = load_families(str(OWN))
SOURCE = TritonSource([OWN])
GOOD = {"BLOCK": 128, "FAULT": "", "num_warps": 2, "maxnreg": 32}


def candidate(workload: Workload | None = None, **decisions: object) -> Candidate:
    return SOURCE.space(workload or SCALE.workload(), "cuda").candidate(Config({**GOOD, **decisions}))


@pytest.mark.parametrize("check", SOURCE_CHECKS)
def test_triton_keeps_the_contract_of_sources(check: object, tmp_path: Path) -> None:
    assert callable(check)
    check(SourceCase(SOURCE, SCALE.workload(m=4, n=300), "cuda", "sm_90"), tmp_path)


def test_a_note_tells_the_driver_what_the_kernel_takes(tmp_path: Path) -> None:
    built = SOURCE.build(candidate(SCALE.workload(m=1, n=320)), "cuda", "sm_90", tmp_path)
    assert built.library
    note = msgspec.json.decode(built.library.with_suffix(".launch.json").read_bytes(), type=LaunchNote)
    assert (note.kernel, note.grid, note.block) == ("scale", (1, 1, 1), (64, 1, 1))
    assert note.parameters
    own, triton_s = note.parameters[:6], note.parameters[6:]
    # m is 1, and compiled in
    assert own == (
        Position(0),
        Position(1),
        Position(2),
        Scratch(4),
        PassedValue("int32", 320),
        PassedValue("float32", 2.5),
    )
    assert set(triton_s) == {Scratch(0)}


def test_registers_are_those_that_a_config_allows(tmp_path: Path) -> None:
    built = SOURCE.build(candidate(BLOCK=1024, num_warps=1, maxnreg=32), "cuda", "sm_90", tmp_path)
    assert 0 < built.resources[0].registers_per_thread <= 32


def test_a_config_that_the_compiler_refuses_says_why(tmp_path: Path) -> None:
    refused = candidate(FAULT="assertion")
    built = SOURCE.build(refused, "cuda", "sm_90", tmp_path)
    assert built.outcome is Outcome.COMPILE_ERROR
    assert "this config is not meant to be" in built.error
    assert "static_assert" in (tmp_path / f"{refused.candidate_id}.log").read_text()
    assert not list(tmp_path.glob("*.cubin"))


def test_triton_leaves_nothing_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    SOURCE.build(candidate(), "cuda", "sm_80", tmp_path)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("family", TritonSource.shipped(), ids=lambda family: family.name)
def test_families_that_ship_compile(family: TritonFamily) -> None:
    check = check_family(TritonSource(), family, configs=4)
    assert check.compiled == len(check.configs), check.failures


@pytest.mark.skipif(
    np.lib.NumpyVersion(triton.__version__) < "3.9.0" and np.lib.NumpyVersion(np.__version__) >= "2.4.0",
    reason="Triton's interpreter takes NumPy 2.4 from 3.9 on",
)
def test_the_interpreter_finds_what_is_wrong() -> None:
    pytest.importorskip("torch")
    workload = SCALE.workload(m=3, n=300)
    faults = ("", "wrong", "leaves", "once", "assertion")
    configs = [Config({**GOOD, "FAULT": fault}) for fault in faults]
    right, wrong, left, once, asserted = interpret([str(OWN)], workload, configs)
    assert right == ""
    assert "after the first run" in wrong
    assert "after the second run" in left
    assert "after the second run" in once
    assert "AssertionError" in asserted or "not meant to be" in asserted


def test_a_persistent_kernel_is_launched_with_the_programs_of_its_config(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    place = str(OWN.parent / "persistent")
    (persistent,) = load_families(place)
    space = persistent.space(persistent.workload(n=5000))
    configs = [Config({"BLOCK": 128, "PROGRAMS": each, "num_warps": 4}) for each in (8, 16)]
    assert interpret([place], space.workload, configs) == ["", ""]

    built = build_triton_family(persistent, space.candidate(configs[1]), "sm_90", tmp_path)
    note = msgspec.json.decode(built.library.with_suffix(".launch.json").read_bytes(), type=LaunchNote)
    assert note.grid == (16, 1, 1)


def test_the_check_of_a_family_runs_it_in_the_interpreter() -> None:
    found = check_kernels(OWN, dims={"m": 2, "n": 300}, configs=3, runner="interpreter")
    assert found.interpreted
    assert found.interpreted[0] == ""
    assert not found.failed
