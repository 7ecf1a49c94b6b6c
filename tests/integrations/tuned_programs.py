"""Small programs to tune, contexts of their tasks, and candidates. Nothing is built or run."""

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tvm")

import tvm
from tvm import te
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from costmodel.integrations.tvm import named_platform
from costmodel.kernels import open_space
from costmodel.kernels.metaschedule._tvm_start import register_tensor_intrinsics
from costmodel.records import Device, Platform, Workload
from costmodel.records._platform import part_of

H100 = "NVIDIA H100 80GB HBM3"
KNOWN = Workload.parse("matmul-m256-n256-k256")


def cuda() -> Any:
    return tvm.target.Target("nvidia/nvidia-h100")


def on_h100(sms: int = 32) -> Platform:
    return named_platform(H100, sms)


def a_cpu() -> Platform:
    """The whole of a CPU of one thread."""
    device = Device(
        name="a CPU",
        kind="cpu",
        architecture="x86_64",
        sms=1,
        clock_mhz=2000.0,
        bandwidth_gb_s=0.0,
        l2_bytes=0,
        shared_bytes_per_sm=0,
        registers_per_sm=0,
        max_threads_per_sm=1,
        max_blocks_per_sm=1,
        fp32_lanes_per_sm=1,
        tensor_flops_per_sm_clock=0,
    )
    return part_of(device, None)


def matmul() -> Any:
    """A module that is a known workload."""
    return open_space(KNOWN, "cuda").module


def row_sums() -> Any:
    """A module that is no workload: each element goes through an exponential, each row is summed up."""
    x = te.placeholder((64, 128), name="x")
    y = te.compute((64, 128), lambda i, j: te.exp(x[i, j]) + x[i, j], name="y")
    j = te.reduce_axis((0, 128), "j")
    return tvm.IRModule({"main": te.create_prim_func([x, te.compute((64,), lambda i: te.sum(y[i, j], j))])})


def search() -> Any:
    """Stock's evolution, small."""
    return ms.search_strategy.EvolutionarySearch(
        population_size=16, genetic_num_iters=1, init_min_unmeasured=8, init_measured_ratio=0.25
    )


@contextmanager
def own_logs() -> Iterator[None]:
    """Let what the log of one tuning goes to not be taken over by the next."""
    yield
    logger = logging.getLogger("tvm.s_tir.meta_schedule")
    for handler in logger.handlers:
        handler.close()
    logger.handlers.clear()
    logger.propagate = True


def context_of(module: Any, target: Any = None, task: str = "main", rules: Any = "post-order-apply") -> Any:
    """MetaSchedule's context of the task, with its defaults."""
    register_tensor_intrinsics()  # as the context would, but quickly
    return ms.TuneContext(
        mod=module,
        task_name=task,
        target=target or cuda(),
        space_generator=rules,
        search_strategy=search(),
        rand_state=1,
        num_threads=1,
    )


@cache
def drawn(kind: str, count: int = 12) -> tuple[Any, tuple[Any, ...]]:
    """A context and candidates, the same in every process: ``matmul``, or the unknown ``row_sums``."""
    context = context_of({"matmul": matmul, "row_sums": row_sums}[kind]())
    spaces = context.generate_design_space()
    context.pre_tuning(count, count, spaces, ms.database.MemoryDatabase(), ms.cost_model.RandomModel(seed=1))
    candidates = tuple(context.generate_measure_candidates())
    assert len(candidates) == count
    return context, candidates


def result(seconds: float | None) -> Any:
    """A measurement of this many seconds, or a failure."""
    return ms.runner.RunnerResult(
        None if seconds is None else [seconds], "failed" if seconds is None else None
    )


@derived_object
class Pretending(ms.builder.PyBuilder):
    """Builds nothing: the name of an artifact's folder, its own, tells the kernel.

    MetaSchedule deletes the folder that an artifact is in, whatever else that holds.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def build(self, build_inputs: Any) -> Any:
        return [self._build(hashlib.sha256(str(one.mod).encode()).hexdigest()) for one in build_inputs]

    def _build(self, kernel: str) -> Any:
        (self.folder / kernel).mkdir(parents=True, exist_ok=True)
        return ms.builder.BuilderResult(str(self.folder / kernel / "module.so"), None)


@derived_object
class Fixed(ms.runner.PyRunnerFuture):
    """A result that is there."""

    def __init__(self, found: Any) -> None:
        super().__init__()
        self.found = found

    def done(self) -> bool:
        return True

    def result(self) -> Any:
        return self.found


@derived_object
class Pretended(ms.runner.PyRunner):
    """Latencies that are the same for the same kernel; one in eight fails, or none."""

    def __init__(self, *, fails: bool = True) -> None:
        super().__init__()
        self.fails = fails

    def run(self, runner_inputs: Any) -> Any:
        numbers = [int(Path(str(one.artifact_path)).parent.name[:4], 16) for one in runner_inputs]
        return [
            Fixed(
                ms.runner.RunnerResult(
                    *((None, "failed") if self.fails and n % 8 == 0 else ([1e-6 * (1 + n)], None))
                )
            )
            for n in numbers
        ]
