"""``costmodel.integrations.triton`` in place of ``triton.autotune``, in Triton's interpreter on a CPU."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

triton = pytest.importorskip("triton")
torch = pytest.importorskip("torch")

import triton.language as tl  # noqa: E402 (behind the checks that it is there)
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402
from triton.runtime.errors import OutOfResources  # noqa: E402
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: E402

from costmodel import CostModelError, Model, train  # noqa: E402
from costmodel.dataset import read_files  # noqa: E402
from costmodel.integrations.triton import (  # noqa: E402
    Autotuner,
    autotune,
    dispatch_table,
    save_moe_configs,
)
from costmodel.records import Measurement, Outcome, Platform, RecordStore, find_device, read_records  # noqa: E402
from costmodel.records._measurement import KernelResources  # noqa: E402
from costmodel.records._platform import part_of  # noqa: E402

pytestmark = [pytest.mark.triton, pytest.mark.white_box]

H100 = find_device("NVIDIA H100 80GB HBM3")
BLOCKS, WARPS = (16, 32, 64, 128), (1, 2, 4)
BEST = {"BLOCK": 64, "num_warps": 4, "num_stages": 3}
# Warps that the kernel below likes best, by SMs.
LIKED = {16: 1, 32: 2, 132: 4}


def times_three(x: Any, y: Any, n: Any, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 3.0 * tl.load(x + at, mask=at < n), mask=at < n)


def configs(**options: Any) -> list[Any]:
    return [triton.Config({"BLOCK": b}, num_warps=w, **options) for b in BLOCKS for w in WARPS]


@dataclass
class Bench:
    """A timer for ``do_bench``: runs the kernel once, and tells what a formula gives for its arguments."""

    sms: int = 132
    timed: list[dict[str, Any]] = field(default_factory=list)
    fails: Callable[[dict[str, Any]], Exception | None] = lambda _: None
    _now: dict[str, Any] = field(default_factory=dict)

    def __call__(self, kernel_call: Callable[[], None], quantiles: tuple[float, ...]) -> list[float]:
        assert quantiles == (0.5, 0.2, 0.8)
        kernel_call()
        ms = self.milliseconds(self._now)
        return [ms, 0.9 * ms, 1.2 * ms]

    def milliseconds(self, now: dict[str, Any]) -> float:
        warps = abs(now["num_warps"] - LIKED[self.sms])
        return 1e-3 * now["n"] / self.sms * (1.0 + abs(now["BLOCK"] - 64) / 64 + warps)

    def pre_hook(self, arguments: dict[str, Any], reset_only: bool = False) -> None:
        if not reset_only:
            self._now = dict(arguments)
            self.timed.append(self._now)
            if (error := self.fails(self._now)) is not None:
                raise error

    def platform(self) -> Platform:
        return part_of(H100, self.sms)

    def kernel(self, store: Path, function: Callable[..., Any] = times_three, **settings: Any) -> Autotuner:
        settings = {"configs": configs(), "key": ["n"], "platform": self.platform, **settings}
        decorate = autotune(do_bench=self, pre_hook=self.pre_hook, store=store, **settings)
        return decorate(triton.jit(function))


def accumulate(x: Any, y: Any, n: Any, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(y + at, mask=at < n) + tl.load(x + at, mask=at < n), mask=at < n)


def does_not_compile(x: Any) -> None:
    tl.static_assert(False, "never")
    tl.store(x, 0.0)


@pytest.fixture(autouse=True)
def interpreter() -> Iterator[None]:
    with triton.knobs.runtime.scope():
        triton.knobs.runtime.interpret = True
        yield


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "timings.jsonl"


def run(kernel: Autotuner, n: int = 64) -> Any:
    """Launch, check the result, and give the config that was taken."""
    x = torch.arange(float(n))
    y = torch.full((n,), float("nan"))
    kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n)
    assert torch.equal(y, 3.0 * x)
    return kernel.best_config


def taken(config: Any) -> tuple[int, int]:
    return config.kwargs["BLOCK"], config.num_warps


def rows(path: Path) -> list[Measurement]:
    return list(read_records(path))


def neighbours_of(bench: Bench, path: Path, sizes: tuple[int, ...] = (32, 128)) -> None:
    """Time all configs for other sizes, on 16 and 132 SMs."""
    kernel = bench.kernel(path)
    for bench.sms in (16, 132):
        for n in sizes:
            run(kernel, n)
    bench.timed.clear()


@pytest.fixture
def model(bench: Bench, tmp_path: Path) -> Model:
    """What was learned from other sizes."""
    neighbours_of(bench, tmp_path / "learned.jsonl")
    return train(read_files([tmp_path / "learned.jsonl"]), "kernel-ridge")


def test_the_fastest_config_runs_as_with_triton(bench: Bench, path: Path) -> None:
    ours = bench.kernel(path)
    decorate = triton.autotune(configs(), ["n"], do_bench=bench, pre_hook=bench.pre_hook)
    stock = decorate(triton.jit(times_three))

    assert taken(run(ours)) == taken(run(stock)) == (64, 4)
    assert isinstance(ours, triton.runtime.autotuner.Autotuner)
    told = {taken(config): ms for config, ms in ours.configs_timings.items()}
    assert told == {taken(config): pytest.approx(ms) for config, ms in stock.configs_timings.items()}


def test_each_key_and_number_of_sms_has_an_answer_and_is_timed_once(bench: Bench, path: Path) -> None:
    kernel = bench.kernel(path)
    answers = {}
    for _ in range(2):
        for bench.sms in LIKED:
            answers |= {(bench.sms, n): taken(run(kernel, n)) for n in (32, 64)}

    assert answers == {(sms, n): (64, warps) for sms, warps in LIKED.items() for n in (32, 64)}
    assert len(bench.timed) == len(kernel.configs) * len(LIKED) * 2
    assert len(kernel.cache) == len(LIKED) * 2


def test_rows_tell_kernel_sizes_config_launch_and_place(bench: Bench, path: Path) -> None:
    bench.sms = 32
    kernel = bench.kernel(path, launch={"global_load_bytes": "4 * n", "flops": "n * blocks * threads"})
    run(kernel, 64)

    row = rows(path)[4]
    assert row.candidate.workload.name == "triton.times_three_fp32x2-n64"
    assert row.candidate.family == "triton.times_three_fp32x2"
    assert row.candidate.config.decisions == {"BLOCK": 32, "num_warps": 2, "num_stages": 3}
    (launch,) = row.candidate.launches
    assert (launch.blocks, launch.threads_per_block) == (2, 64)
    assert (launch.global_load_bytes, launch.flops) == (256, 64 * 2 * 64)
    assert row.platform.name == "NVIDIA H100 80GB HBM3/green_context/32"
    assert row.latencies_s == pytest.approx([each * row.latency_s for each in (1.0, 0.9, 1.2)])
    assert row.latency_s == pytest.approx(bench.milliseconds({"n": 64, "BLOCK": 32, "num_warps": 2}) / 1e3)


def test_an_identical_question_is_answered_from_the_store(bench: Bench, path: Path) -> None:
    run(bench.kernel(path))
    bench.timed.clear()

    again = bench.kernel(path)
    assert taken(run(again)) == (64, 4)
    assert bench.timed == []
    assert min(ms[0] for ms in again.configs_timings.values()) == pytest.approx(1e-3 * 64 / 132)


def test_other_source_is_another_question(bench: Bench, path: Path) -> None:
    run(bench.kernel(path))
    bench.timed.clear()

    def times_three(x: Any, y: Any, n: Any, BLOCK: tl.constexpr) -> None:
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at, mask=at < n) * 3.0, mask=at < n)

    run(bench.kernel(path, times_three))
    assert len(bench.timed) == len(configs())
    assert len({row.candidate.space for row in rows(path)}) == 2
    assert len({row.candidate.family for row in rows(path)}) == 1


def test_another_driver_or_timer_is_timed_again_as_another_visit(bench: Bench, path: Path) -> None:
    def with_driver(release: str) -> Callable[[], Platform]:
        return lambda: msgspec.structs.replace(part_of(H100), software={"driver": release})

    for release, times in {"580.1": 1, "590.2": 2}.items():
        for _ in range(2):
            run(bench.kernel(path, platform=with_driver(release)))
        assert len(bench.timed) == times * len(configs())

    assert [row.visit for row in rows(path)] == [0] * len(configs()) + [1] * len(configs())


def test_values_that_are_no_sizes_are_kept_apart(bench: Bench, path: Path) -> None:
    def scaled(  # noqa: PLR0917
        x: Any, y: Any, n: Any, KIND: tl.constexpr, shift: Any, BLOCK: tl.constexpr
    ) -> None:  # fmt: skip
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, 3.0 * tl.load(x + at, mask=at < n) + shift, mask=at < n)

    kernel = bench.kernel(path, scaled, key=["n", "KIND", "shift"])
    x, y = torch.ones(64), torch.zeros(64, dtype=torch.float64)
    for kind, shift in (("relu", 0), (None, 0), (None, 2), (True, 2)):
        kernel[(4,)](x, y, 64, kind, shift)

    assert kernel.letters == {"n": "n", "KIND": "k", "shift": "s"}
    assert list(dict.fromkeys(row.candidate.workload.name for row in rows(path))) == [
        "triton.scaled_fp32_fp64_KIND_relu_shift_0-n64",
        "triton.scaled_fp32_fp64_KIND_None_shift_0-n64",
        "triton.scaled_fp32_fp64_KIND_None-n64-s2",
        "triton.scaled_fp32_fp64_KIND_True-n64-s2",
    ]


def test_tensors_behind_descriptors_and_in_tuples_tell_their_types(bench: Bench, path: Path) -> None:
    def described(source: Any, y: Any, n: Any, BLOCK: tl.constexpr) -> None:
        at = tl.program_id(0) * 64 + tl.arange(0, 64)
        tl.store(y + at, 3.0 * source.load([tl.program_id(0) * 64]).to(tl.float32), mask=at < n)

    def paired(xs: Any, y: Any, n: Any, BLOCK: tl.constexpr) -> None:
        at = tl.program_id(0) * 64 + tl.arange(0, 64)
        tl.store(y + at, 3.0 * tl.load(xs[1] + at, mask=at < n), mask=at < n)

    y = torch.zeros(64)
    for dtype in (torch.float32, torch.float16):
        x = torch.arange(64.0).to(dtype)
        bench.kernel(path, described)[(1,)](TensorDescriptor.from_tensor(x, [64]), y, 64)
        assert torch.equal(y, 3.0 * torch.arange(64.0))
        bench.kernel(path, paired)[(1,)]((y, x), y, 64)

    assert len(bench.timed) == 4 * len(configs())
    assert list(dict.fromkeys(row.candidate.family for row in rows(path))) == [
        "triton.described_fp32x2",
        "triton.paired_fp32x3",
        "triton.described_fp16_fp32",
        "triton.paired_fp32_fp16_fp32",
    ]
    assert len({row.candidate.space for row in rows(path)}) == 4


def test_a_question_is_which_argument_has_which_type_in_any_order(bench: Bench, path: Path) -> None:
    # The interpreter of Triton 3.6 cannot launch with True where an argument is no constant.
    def added(n: Any, x: Any = None, y: tl.constexpr = None, z: Any = None, BLOCK: tl.constexpr = 16) -> None:
        tl.store(z, 1.0)

    half, single = torch.zeros(64, dtype=torch.float16), torch.zeros(64)
    kernel = bench.kernel(path, added, key=["n", "y"])
    calls: list[dict[str, Any]] = [
        {"x": half, "z": single},
        {"z": single, "x": half},
        {"z": single, "x": half, "y": None},  # its default
        {"z": half, "x": single},
        {"x": half, "y": 1, "z": single},
        {"x": half, "y": True, "z": single},
        {"x": half, "y": "1", "z": single},
        {"x": half, "y": "True", "z": single},
    ]
    answers = []
    for call in calls:
        kernel[(1,)](64, **call)
        bench.kernel(path, added, key=["n", "y"])[(1,)](64, **call)  # another process
        answers.append(len(bench.timed) // len(configs()))

    assert answers == [1, 1, 1, 2, 3, 4, 5, 6]
    assert len(rows(path)) == len(bench.timed)
    assert rows(path)[0].candidate.family == "triton.added_fp16_fp32_y_None"


@pytest.mark.parametrize(
    "make",
    [lambda: float("nan"), lambda: np.float32("nan"), lambda: (1, float("nan")), lambda: complex("nan+1j")],
)
def test_a_key_of_what_is_no_number_is_tuned_once(
    bench: Bench, path: Path, make: Callable[[], object]
) -> None:
    """Python tells one NaN from another, so that each would be a key of its own."""

    def filled(n: Any, y: tl.constexpr, z: Any, BLOCK: tl.constexpr = 16) -> None:
        tl.store(z, 1.0)

    kernel = bench.kernel(path, filled, key=["n", "y"])
    for _ in range(3):
        kernel[(1,)](64, make(), torch.zeros(64))

    assert len(bench.timed) == len(configs())
    assert len(kernel.cache) == 1


def test_any_value_of_a_parameter_is_kept(bench: Bench, path: Path) -> None:
    def cast(  # noqa: PLR0917
        x: Any, y: Any, n: Any, EVEN: tl.constexpr, TYPE: tl.constexpr, BLOCK: tl.constexpr
    ) -> None:  # fmt: skip
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, 3.0 * tl.load(x + at, mask=at < n).to(TYPE), mask=at < n)

    offered = [
        triton.Config({"BLOCK": 64, "EVEN": even, "TYPE": kind}, num_ctas=2, maxnreg=128)
        for even in (False, True)
        for kind in (tl.float16, tl.float32)
    ]
    for timed in (4, 0):
        bench.timed.clear()
        run(bench.kernel(path, cast, configs=offered))
        assert len(bench.timed) == timed
    assert rows(path)[3].candidate.config.decisions == {
        **{"BLOCK": 64, "EVEN": 1, "TYPE": "fp32"},
        **{"num_warps": 4, "num_stages": 3, "num_ctas": 2, "maxnreg": 128},
    }


def test_what_fails_costs_one_config_and_is_not_tried_again(bench: Bench, path: Path) -> None:
    errors = {
        (64, 4): OutOfResources(9, 1, "shared memory"),
        (64, 2): ZeroDivisionError("odd"),
        (64, 1): None,
    }

    def fails(now: dict[str, Any]) -> Exception | None:
        return errors.get((now["BLOCK"], now["num_warps"]))

    bench.fails = fails
    for timed in (len(configs()), 0):
        bench.timed.clear()
        assert taken(run(bench.kernel(path))) == (32, 4)
        assert len(bench.timed) == timed

    failed = {tuple(row.candidate.config.decisions.values())[:2]: row for row in rows(path) if row.error}
    assert {config: row.outcome for config, row in failed.items()} == {
        (64, 4): Outcome.INVALID_CONFIG,
        (64, 2): Outcome.LAUNCH_ERROR,
    }
    assert "shared memory" in failed[64, 4].error


def test_where_the_whole_shortlist_fails_more_is_timed(bench: Bench, path: Path) -> None:
    bench.fails = lambda now: RuntimeError("no") if now["BLOCK"] == 16 else None
    assert taken(run(bench.kernel(path, shortlist=2))) == (32, 1)
    assert len(bench.timed) == 4


def test_pruning_must_leave_a_config(bench: Bench, path: Path) -> None:
    nothing = {"perf_model": lambda **_: 1.0, "top_k": 0}
    with pytest.raises(CostModelError, match=r"must leave a config of triton\.times_three_fp32x2-n64"):
        run(bench.kernel(path, prune_configs_by=nothing))


def test_a_compile_error_is_told_from_others(bench: Bench, path: Path) -> None:
    with triton.knobs.runtime.scope():
        triton.knobs.runtime.interpret = False
        source = ASTSource(triton.jit(does_not_compile), signature={"x": "*fp32"})

    def fails(now: dict[str, Any]) -> None:
        if now["BLOCK"] == 64:
            triton.compile(source, target=GPUTarget("cuda", 90, 32))

    bench.fails = fails
    assert taken(run(bench.kernel(path))) == (32, 4)
    outcomes = {row.candidate.config.decisions["BLOCK"]: row.outcome for row in rows(path)}
    assert outcomes == dict.fromkeys(BLOCKS, Outcome.OK) | {64: Outcome.COMPILE_ERROR}


def test_what_fails_every_config_is_told_and_not_kept(bench: Bench, path: Path) -> None:
    bench.fails = lambda _: TypeError("an argument is missing")
    with pytest.raises(CostModelError, match=r"none of 12 does.*an argument is missing"):
        run(bench.kernel(path))
    assert rows(path) == []

    bench.fails = lambda _: None
    assert taken(run(bench.kernel(path))) == (64, 4)


TAKEN = (
    RuntimeError("Triton Error [CUDA]: out of memory"),
    torch.OutOfMemoryError("full"),
    torch.AcceleratorError(
        "CUDA error: CUDA-capable device(s) is/are busy or unavailable\n"
        "Search for `cudaErrorDevicesUnavailable' in https://docs.nvidia.com for more information.\n"
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."
    ),
    OSError(28, "No space left on device"),
    MemoryError(),
)


@pytest.mark.parametrize("error", TAKEN, ids=lambda error: type(error).__name__)
def test_what_others_have_taken_is_not_the_fault_of_a_config(
    bench: Bench, path: Path, error: Exception
) -> None:
    run(bench.kernel(path, configs=configs()[:2]), 128)
    bench.timed.clear()

    bench.fails = lambda now: error if now["BLOCK"] == 64 else None
    with pytest.warns(RuntimeWarning, match="next process tries again"):
        assert taken(run(bench.kernel(path))) == (32, 4)
    assert [now["BLOCK"] for now in bench.timed[len(configs()) :]] == [64] * 6
    assert {row.outcome for row in rows(path)} == {Outcome.OK}

    bench.fails, bench.timed = lambda _: None, []
    assert taken(run(bench.kernel(path))) == (64, 4)
    assert [now["BLOCK"] for now in bench.timed] == [64] * 3


def test_what_passes_is_tried_again_at_the_end(bench: Bench, path: Path) -> None:
    bench.fails = lambda now: TAKEN[0] if len(bench.timed) < 6 else None
    assert taken(run(bench.kernel(path))) == (64, 4)
    assert len(bench.timed) == len(configs()) + 5
    assert len(rows(path)) == len(configs())


def test_where_everything_is_taken_nothing_is_kept(bench: Bench, path: Path) -> None:
    bench.fails = lambda _: TAKEN[0]
    with (
        pytest.warns(RuntimeWarning, match="could not be timed"),
        pytest.raises(CostModelError, match=r"none of 12 does.*Triton Error \[CUDA\]: out of memory"),
    ):
        run(bench.kernel(path))
    assert rows(path) == []


def test_passing_failures_that_earlier_versions_kept_are_timed_again(bench: Bench, path: Path) -> None:
    run(bench.kernel(path))
    best = next(row for row in rows(path) if row.candidate.config.decisions == BEST)
    path.unlink()
    with RecordStore(path) as store:
        failed = {"outcome": Outcome.LAUNCH_ERROR, "latencies_s": (), "error": str(TAKEN[0])}
        store.append([msgspec.structs.replace(best, **failed)])

    bench.timed.clear()
    again = path.with_name("again.jsonl")
    again.write_bytes(path.read_bytes())
    assert taken(run(bench.kernel(again))) == (64, 4)
    assert [row.visit for row in rows(again) if row.candidate.config.decisions == BEST] == [0, 0]


def test_arguments_are_restored_as_with_triton(path: Path) -> None:
    def twice(kernel_call: Callable[[], None], quantiles: Any) -> float:
        kernel_call()
        kernel_call()
        return 1.0

    settings: dict[str, Any] = {"configs": configs(), "key": ["n"], "do_bench": twice}
    x = torch.arange(64.0)
    for restored, expected in (({"restore_value": ["y"]}, 5.0 + x), ({"reset_to_zero": ["y"]}, x)):
        y = torch.full((64,), 5.0)
        kernel = autotune(**settings, **restored, store=path, platform=part_of(H100))(triton.jit(accumulate))
        kernel[lambda meta: (triton.cdiv(64, meta["BLOCK"]),)](x, y, 64)
        assert torch.equal(y, expected)
        path.unlink()
        path = path.with_name("again.jsonl")


def test_hooks_of_configs_and_heuristics_act(bench: Bench, path: Path) -> None:
    called: list[int] = []
    bench_configs = configs(pre_hook=lambda arguments: called.append(arguments["BLOCK"]))

    def shifted(x: Any, y: Any, n: Any, SHIFT: tl.constexpr, BLOCK: tl.constexpr) -> None:
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, 3.0 * tl.load(x + at, mask=at < n) + SHIFT, mask=at < n)

    heuristic = triton.heuristics({"SHIFT": lambda arguments: arguments["BLOCK"]})(triton.jit(shifted))
    kernel = autotune(
        bench_configs, ["n"], do_bench=bench, pre_hook=bench.pre_hook, store=path, platform=bench.platform
    )(heuristic)
    x, y = torch.zeros(64), torch.zeros(64)
    kernel[lambda meta: (triton.cdiv(64, meta["BLOCK"]),)](x, y, 64)

    assert torch.equal(y, torch.full((64,), 64.0))
    assert len(called) == len(bench_configs) + 1
    assert called[-1] == 64


@pytest.mark.parametrize("collect", [set, tuple, iter])
def test_pruning_may_leave_configs_in_any_form(bench: Bench, path: Path, collect: Callable[..., Any]) -> None:
    def prune(configs: list[Any], named: Any, **given: Any) -> Any:
        return collect(configs[:3])

    run(bench.kernel(path, prune_configs_by={"early_config_prune": prune}))
    assert len(bench.timed) == 3


def times_three_down_to(x: Any, y: Any, n: Any, BLOCK: tl.constexpr, LEAST: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 3.0 * tl.load(x + at, mask=at < n), mask=at < n)


def test_configs_may_differ_in_what_no_file_has_a_number_for(bench: Bench, path: Path) -> None:
    """JSON writes an infinity, its negative and NaN alike."""
    values = (float("-inf"), float("inf"), float("nan"), 0.5)
    given = [triton.Config({"BLOCK": 64, "LEAST": value}) for value in values]
    for timed in (4, 0):
        bench.timed.clear()
        run(bench.kernel(path, times_three_down_to, configs=given))
        assert len(bench.timed) == timed
    kept = [row.candidate.config.decisions["LEAST"] for row in rows(path)]
    assert kept == ["-inf", "inf", "nan", 0.5]


def test_configs_are_pruned_as_with_triton(bench: Bench, path: Path) -> None:
    def early(offered: list[Any], arguments: dict[str, Any], **_: Any) -> list[Any]:
        return [config for config in offered if config.kwargs["BLOCK"] <= arguments["n"] // 2]

    kernel = bench.kernel(
        path,
        prune_configs_by={
            "early_config_prune": early,
            "perf_model": lambda **arguments: -arguments["num_warps"],
            "top_k": 2,
        },
    )
    assert taken(run(kernel)) == (32, 4)
    assert [(now["BLOCK"], now["num_warps"]) for now in bench.timed[:2]] == [(16, 4), (32, 4)]
    assert len(rows(path)) == 2

    only = bench.kernel(path, prune_configs_by={"early_config_prune": lambda offered, *_, **__: offered[:1]})
    bench.timed.clear()
    assert taken(run(only, 128)) == (16, 1)
    assert len(bench.timed) == 0


def test_without_a_model_the_shortlist_is_what_neighbours_liked(bench: Bench, path: Path) -> None:
    neighbours_of(bench, path)
    for bench.sms in (16, 132):
        bench.timed.clear()
        assert taken(run(bench.kernel(path, shortlist=1), 64)) == (64, LIKED[bench.sms])
        assert len(bench.timed) == 1

    bench.timed.clear()
    alone = path.with_name("alone.jsonl")
    assert taken(run(bench.kernel(alone, shortlist=2), 64)) == (16, 2)


def test_neighbours_put_failures_behind_what_they_do_not_know(bench: Bench, path: Path) -> None:
    bench.fails = lambda now: RuntimeError("no") if now["BLOCK"] == 16 else None
    run(bench.kernel(path, configs=configs()[:6]), 128)
    bench.timed.clear()

    run(bench.kernel(path, shortlist=12), 64)
    assert [now["BLOCK"] for now in bench.timed] == [32] * 3 + [64] * 3 + [128] * 3 + [16] * 3


def test_a_model_chooses_what_is_timed(bench: Bench, path: Path, model: Model, tmp_path: Path) -> None:
    model.save(tmp_path / "learned.costmodel")
    for bench.sms in (16, 132):
        bench.timed.clear()
        kernel = bench.kernel(path, model=tmp_path / "learned.costmodel", shortlist=3)
        assert taken(run(kernel, 64)) == (64, LIKED[bench.sms])
        assert len(bench.timed) == 3

    bench.sms, bench.timed = 32, []
    run(bench.kernel(path, model=model), 64)
    assert len(bench.timed) == 8


def test_with_a_model_alone_nothing_is_timed(bench: Bench, path: Path, model: Model) -> None:
    run(bench.kernel(path, configs=configs()[:2]), 64)
    bench.timed.clear()
    kernel = bench.kernel(path, model=model, mode="model")
    for bench.sms in (16, 132):
        assert taken(run(kernel, 64)) == (64, LIKED[bench.sms])
    assert bench.timed == []
    assert len(kernel.cache) == 2

    bench.sms, liked = 16, dict(LIKED)
    try:
        LIKED[16] = 4
        run(bench.kernel(path), 64)
    finally:
        LIKED.update(liked)
    assert taken(run(bench.kernel(path, model=model, mode="model"), 64)) == (64, 4)


def test_in_the_background_each_call_times_one_config(bench: Bench, path: Path, model: Model) -> None:
    kernel = bench.kernel(path, model=model, mode="background", shortlist=4)
    timed = []
    for _ in range(7):
        before = len(bench.timed)
        run(kernel, 64)
        timed.append(len(bench.timed) - before)

    assert timed == [0, 1, 1, 1, 1, 0, 0]
    assert taken(kernel.best_config) == (64, 4)
    assert len(kernel.cache) == 1


def test_a_model_that_does_not_know_the_kernel_is_told_of(bench: Bench, path: Path, model: Model) -> None:
    kernel = bench.kernel(path, accumulate, model=model, mode="model")
    with pytest.warns(RuntimeWarning, match=r"triton\.accumulate_fp32x2"):
        kernel[(4,)](torch.zeros(64), torch.zeros(64), 64)
    assert taken(kernel.best_config) == (16, 1)


def test_a_timer_on_other_sms_is_refused(bench: Bench, path: Path) -> None:
    def elsewhere(kernel_call: Callable[[], None], quantiles: Any) -> float:
        bench.sms = 16
        try:
            kernel_call()
        finally:
            bench.sms = 132
        return 1.0

    kernel = autotune(configs(), ["n"], do_bench=elsewhere, store=path, platform=bench.platform)(
        triton.jit(times_three)
    )
    with pytest.raises(CostModelError, match=r"whole/132, as the call does, but runs it on .*context/16"):
        run(kernel)
    assert rows(path) == []


def test_settings_are_checked(bench: Bench, path: Path) -> None:
    with pytest.raises(CostModelError, match="mode must be"):
        bench.kernel(path, mode="thread")
    wrong = {
        "shortlist": (0, 1.5, "3"),
        "compile_workers": (-1, 1.5, "3"),
        "key": (5, (1, 2)),
        "platform": (5, "H100"),
        "launch": (5, "blocks"),
    }
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(CostModelError, match=f"{name} must be "):
                bench.kernel(path, **{name: value})
    with pytest.raises(CostModelError, match=r"must be a \.jsonl file"):
        run(bench.kernel(path.with_suffix(".txt")))
    with pytest.raises(CostModelError, match="fields of KernelLaunch, but got \\['speed'\\]"):
        run(bench.kernel(path, launch={"speed": 1}))
    x = torch.zeros(64)
    with pytest.raises(CostModelError, match="must not be given, but got BLOCK"):
        bench.kernel(path)[(4,)](x, x, 64, BLOCK=16)


def test_one_name_is_a_key(bench: Bench, path: Path) -> None:
    """Its letters would be four names, none of them an argument's, and all sizes would share a config."""
    kernel = bench.kernel(path, times_three_by_size, key="size")
    x, y = torch.arange(64.0), torch.zeros(64)
    for size in (64, 32):
        kernel[(2,)](x, y, size, n=64)
    assert len(bench.timed) == 2 * len(configs())


def times_three_by_size(x: Any, y: Any, size: Any, n: Any, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 3.0 * tl.load(x + at, mask=at < size), mask=at < size)


def test_a_store_that_is_not_named_is_found_by_the_environment(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COSTMODEL_TRITON_STORE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    run(bench.kernel(None))
    assert len(rows(tmp_path / "cache" / "costmodel" / "triton.jsonl")) == len(configs())
    (tmp_path / "full").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "full"))
    with pytest.raises(CostModelError, match=r"Name another place with store= or \$COSTMODEL_TRITON_STORE"):
        run(bench.kernel(None))

    monkeypatch.setenv("COSTMODEL_TRITON_STORE", str(tmp_path / "named.jsonl"))
    run(bench.kernel(None))
    assert len(rows(tmp_path / "named.jsonl")) == len(configs())


def test_a_dispatch_table_tells_the_config_for_any_number_of_sms(bench: Bench, path: Path) -> None:
    kernel = bench.kernel(path)
    for bench.sms in LIKED:
        run(kernel)

    def times_three(x: Any, y: Any, n: Any, BLOCK: tl.constexpr) -> None:
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at, mask=at < n) * 3.0, mask=at < n)

    old = path.with_name("old.jsonl")
    run(bench.kernel(old, times_three))
    old.write_bytes(old.read_bytes() + path.read_bytes())
    assert len({row.candidate.space for row in rows(old)}) == 2
    assert dispatch_table(old).ranges == dispatch_table(path).ranges

    table = dispatch_table(kernel)
    chosen = {sms: table.kernel_for(sms).config.decisions for sms in (1, *LIKED)}
    assert {sms: each["num_warps"] for sms, each in chosen.items()} == {1: 1, **LIKED}
    assert (table.workload.name, table.device.name) == ("triton.times_three_fp32x2-n64", H100.name)
    assert len(dispatch_table(path, kernels=1).ranges) == 1
    with pytest.raises(CostModelError, match="workload must be in the store, but got 'matmul'"):
        dispatch_table(path, "matmul")


TILES = {"BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 32, "GROUP_SIZE_M": 8}


def moe(  # noqa: PLR0917
    x: Any, M: Any, E: Any, N: Any, K: Any,
    BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr,
    GROUP_SIZE_M: tl.constexpr, SPLIT_K: tl.constexpr = 1, waves_per_eu: tl.constexpr = 0,
) -> None:  # fmt: skip
    tl.store(x, 1.0)


def moe_kernel(
    bench: Bench, path: Path, parameters: dict[str, int] | None = None, **settings: Any
) -> Autotuner:
    """A mixture of experts whose best BLOCK_SIZE_M is M."""
    bench.milliseconds = lambda now: 1.0 + abs(now["BLOCK_SIZE_M"] - now["M"])  # type: ignore[method-assign]
    tiles = TILES | (parameters or {})
    offered = [triton.Config({"BLOCK_SIZE_M": m, **tiles}, num_warps=4, num_stages=2) for m in (16, 32, 64)]
    settings = {"function": moe, "key": ["M", "E", "N"], **settings}
    return bench.kernel(path, configs=offered, **settings)


def run_moe(kernel: Autotuner, tokens: int, experts: int = 8, K: int = 0) -> None:
    kernel[(1,)](torch.zeros(1), tokens, experts, 1024, K)


def saved_moe(path: Path, kernel: Autotuner, **settings: Any) -> dict[str, Any]:
    """Contents of the files, by name."""
    folder = path.parent / "moe"
    written = save_moe_configs(kernel, folder, "triton.moe_fp32", **{"dims": kernel.letters, **settings})
    return {str(file.relative_to(folder)): json.loads(file.read_text()) for file in written}


def test_configs_of_a_mixture_of_experts_are_written_as_vllm_reads_them(bench: Bench, path: Path) -> None:
    kernel = moe_kernel(bench, path)
    for experts, tokens in ((8, 16), (8, 64), (16, 32)):
        run_moe(kernel, tokens, experts)

    written = saved_moe(path, kernel)
    assert list(written) == [f"E={e},N=1024,device_name=NVIDIA_H100_80GB_HBM3.json" for e in (8, 16)]
    options = {**TILES, "num_warps": 4, "num_stages": 2}
    assert written["E=8,N=1024,device_name=NVIDIA_H100_80GB_HBM3.json"] == {
        "triton_version": triton.__version__,
        "16": {"BLOCK_SIZE_M": 16, **options},
        "64": {"BLOCK_SIZE_M": 64, **options},
    }
    with pytest.raises(CostModelError, match=r"letter of E in triton\.moe_fp32"):
        saved_moe(path, kernel, dims={"M": "m"})
    with pytest.raises(CostModelError, match=r"timings of triton\.moe_fp32 on 16 SMs, but has none"):
        saved_moe(path, kernel, sms=16)
    with pytest.raises(CostModelError, match="block_shape must be two positive numbers"):
        saved_moe(path, kernel, block_shape=(128,))


def test_files_of_a_mixture_of_experts_have_the_names_of_their_framework(bench: Bench, path: Path) -> None:
    device = msgspec.structs.replace(H100, name="NVIDIA H200 NVL")
    kernel = moe_kernel(
        bench,
        path,
        {"SPLIT_K": 2, "waves_per_eu": 1},
        platform=msgspec.structs.replace(part_of(device), software={"triton": "3.6.0"}),
    )
    run_moe(kernel, 16)
    options = {**TILES, "num_warps": 4, "num_stages": 2, "SPLIT_K": 2, "waves_per_eu": 1}
    configs = {"16": {"BLOCK_SIZE_M": 16, **options}}
    blocks = {"dtype": "fp8_w8a8", "block_shape": (128, 64)}

    assert saved_moe(path, kernel, **blocks) == {
        "E=8,N=1024,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,64].json": {
            "triton_version": "3.6.0",
            **configs,
        }
    }
    name = "E=8,N=1024,device_name=NVIDIA_H200_NVL,dtype=fp8_w8a8,block_shape=[128, 64].json"
    assert saved_moe(path, kernel, framework="sglang", **blocks) == {f"triton_3_6_0/{name}": configs}


def test_configs_of_a_mixture_of_experts_are_the_latest_of_the_current_source(
    bench: Bench, path: Path
) -> None:
    def moe(  # noqa: PLR0917 (its older source)
        x: Any, M: Any, E: Any, N: Any, K: Any,
        BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr,
        GROUP_SIZE_M: tl.constexpr,
    ) -> None:  # fmt: skip
        tl.store(x, 2.0)

    def with_driver(release: str) -> Platform:
        return msgspec.structs.replace(part_of(H100), software={"driver": release})

    old = moe_kernel(bench, path, function=moe, platform=with_driver("1"))
    bench.milliseconds = lambda now: 1e-3  # type: ignore[method-assign]
    run_moe(old, 16)
    for release, liked in (("1", 32), ("2", 64)):
        kernel = moe_kernel(bench, path, platform=with_driver(release))
        bench.milliseconds = lambda now, liked=liked: abs(now["BLOCK_SIZE_M"] - liked) + liked  # type: ignore
        run_moe(kernel, 16)

    (configs,) = saved_moe(path, kernel).values()
    assert configs["16"]["BLOCK_SIZE_M"] == 64
    table = dispatch_table(path)
    assert table.kernel_for(132).config.decisions["BLOCK_SIZE_M"] == 64


def test_sizes_that_a_file_does_not_tell_apart_are_not_mixed(bench: Bench, path: Path) -> None:
    kernel = moe_kernel(bench, path, key=["M", "E", "N", "K"])
    run_moe(kernel, 16, K=256)
    run_moe(kernel, 16, K=512)
    with pytest.raises(CostModelError, match=r"One kernel must be tuned for M=16, E=8, N=1024"):
        saved_moe(path, kernel)


def test_what_the_compiler_gave_a_kernel_is_kept(
    bench: Bench, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interpreter has no machine code: what a GPU's launch gives back stands in for it."""
    kernel = bench.kernel(path, configs=configs()[:2])
    interpreted = kernel.fn.run

    def launched(*args: Any, **options: Any) -> Any:
        interpreted(*args, **options)
        return SimpleNamespace(n_regs=40 * options["num_warps"], n_spills=2)

    monkeypatch.setattr(kernel.fn, "run", launched)
    run(kernel)
    assert [row.resources for row in rows(path)] == [(KernelResources(40, 8),), (KernelResources(80, 8),)]


def test_where_nothing_was_compiled_no_resources_are_told(bench: Bench, path: Path) -> None:
    run(bench.kernel(path))
    assert {row.resources for row in rows(path)} == {()}


def test_timings_of_a_bundle_are_compared_with_those_of_now(bench: Bench, path: Path) -> None:
    run(bench.kernel(path))
    stored, timed = path.read_bytes(), len(bench.timed)
    started = bench.kernel(path)
    checked = started.check_timings(torch.ones(64), torch.empty(64), 64, grid=(4,))
    assert checked.known == len(configs())
    assert next(iter(checked.ratios)).all_kwargs().items() >= BEST.items()
    assert list(checked.ratios.values()) == pytest.approx([1.0] * 3)
    assert checked.holds()
    assert len(bench.timed) == timed + 3
    assert path.read_bytes() == stored
    run(started)
    assert len(bench.timed) == timed + 3


def test_timings_that_no_longer_hold_are_told(
    bench: Bench, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(bench.kernel(path))
    usual = bench.milliseconds
    monkeypatch.setattr(bench, "milliseconds", lambda now: usual(now) * (2.0 if now["BLOCK"] == 64 else 1.0))
    checked = bench.kernel(path).check_timings(torch.ones(64), torch.empty(64), 64, grid=(4,))
    assert next(iter(checked.ratios.values())) == pytest.approx(2.0)
    assert not checked.holds()
    assert checked.holds(within=1.01)


def test_a_config_that_fails_now_does_not_hold(bench: Bench, path: Path) -> None:
    run(bench.kernel(path))
    bench.fails = lambda now: RuntimeError("never") if now["BLOCK"] == 64 else None
    checked = bench.kernel(path).check_timings(torch.ones(64), torch.empty(64), 64, grid=(4,))
    assert float("inf") in checked.ratios.values()
    assert not checked.holds()


def test_timings_that_nobody_made_cannot_be_checked(bench: Bench, path: Path) -> None:
    checked = bench.kernel(path).check_timings(torch.ones(64), torch.empty(64), 64, grid=(4,))
    assert (checked.known, checked.ratios, checked.holds()) == (0, {}, False)
    assert not bench.timed


def test_a_check_leaves_no_sums_behind(path: Path) -> None:
    def once(kernel_call: Callable[[], None], quantiles: Any) -> float:
        kernel_call()
        return 1.0

    y = torch.full((64,), 5.0)
    kernel = autotune(
        configs(), ["n"], do_bench=once, reset_to_zero=["y"], store=path, platform=part_of(H100)
    )(triton.jit(accumulate))
    kernel[(4,)](torch.ones(64), y, 64)
    assert kernel.check_timings(torch.ones(64), y, 64, grid=(4,)).holds()
    assert not y.any()
