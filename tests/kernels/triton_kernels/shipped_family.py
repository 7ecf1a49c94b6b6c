"""What tests do with families that ship: interpret configs, and compile them without a GPU."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import msgspec
import numpy as np
import pytest
from numpy.lib import NumpyVersion as Version

from costmodel.kernels._artifact import LaunchNote
from costmodel.kernels.triton._interpreter import InterpreterJob, interpret_here
from costmodel.kernels.triton._source import TritonSource
from costmodel.records import Candidate, Config, Workload
from costmodel.records._candidate import Decision

SOURCE = TritonSource()


def assert_right(name: str, *configs: Mapping[str, Decision], places: Sequence[str] = ()) -> None:
    """Check in Triton's interpreter that valid configs of a workload agree with its reference.

    Families at ``places`` come before those that ship.
    """
    triton = pytest.importorskip("triton")
    pytest.importorskip("torch")
    if Version(triton.__version__) < "3.9.0" and Version(np.__version__) >= "2.4.0":
        pytest.skip("Triton's interpreter takes NumPy 2.4 from 3.9 on")
    workload = Workload.parse(name)
    space = SOURCE.space(workload, "cuda")
    found = tuple(space.candidate(Config(dict(decisions))).config.decisions for decisions in configs)
    wrong = _interpreter().submit(interpret_here, InterpreterJob(tuple(places), name, found)).result()
    assert not any(wrong), dict(zip(map(str, configs), wrong, strict=True))


@cache
def _interpreter() -> ProcessPoolExecutor:
    """As `interpret` starts one for each call, but for all tests: importing torch and Triton takes 2 s."""
    process = ProcessPoolExecutor(1, get_context("spawn"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        process.submit(bool).result()
    return process


def drawn(name: str, count: int) -> list[Candidate]:
    """Random candidates of a workload."""
    space, rng = SOURCE.space(Workload.parse(name), "cuda"), np.random.default_rng(0)
    return [space.candidate(space.sample(rng)) for _ in range(count)]


def shared_bytes(candidate: Candidate, folder: Path) -> int:
    """Shared memory of a block of the compiled candidate."""
    pytest.importorskip("triton")
    built = SOURCE.build(candidate, "cuda", "sm_90", folder)
    assert built.library, (candidate.config, built.error)
    note = built.library.with_suffix(".launch.json").read_bytes()
    return msgspec.json.decode(note, type=LaunchNote).shared_bytes
