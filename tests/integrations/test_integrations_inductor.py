"""The plug-in for Inductor, without a GPU: real candidates for one, and graphs compiled on the CPU."""

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace as replace_fields

pytest.importorskip("torch")

import torch
from torch._inductor import config, ir, scheduler, select_algorithm, utils
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.choices import InductorChoices
from torch._inductor.graph import GraphLowering
from torch._inductor.kernel.bmm import aten_bmm, bmm_template
from torch._inductor.kernel.mm import (
    aten_addmm,
    aten_bias_addmm,
    aten_mm,
    decompose_k_subgraph_template,
    mm_template,
    persistent_tma_mm_template,
)
from torch._inductor.kernel_inputs import MMKernelInputs
from torch._inductor.kernel_template_choice import DictKernelTemplateParams, KernelTemplateChoice
from torch._inductor.virtualized import V

from costmodel.errors import CostModelError
from costmodel.integrations.inductor import _compile, _install, _timer, install, report
from costmodel.integrations.inductor import compile as compile_for
from costmodel.integrations.inductor._candidates import choose_to_time, even_out, more_choices
from costmodel.integrations.inductor._choices import SmChoices, SmPlan
from costmodel.integrations.inductor._compile import nearest
from costmodel.integrations.inductor._describe import (
    read_choice,
    read_convolution,
    read_product,
    shared_bytes,
)
from costmodel.integrations.inductor._fusion import fusible_steps, saved_by_fusing
from costmodel.integrations.inductor._install import applied
from costmodel.integrations.inductor._models import open_ranking, shipped_blocks
from costmodel.integrations.inductor._timer import NoGraphError, graph_timer
from costmodel.integrations.inductor._timings import ProductTimings
from costmodel.products import Kernel, Product
from costmodel.records import Device, Platform

pytestmark = [
    pytest.mark.white_box,
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),  # of what Inductor itself loads
    pytest.mark.filterwarnings("ignore:TypedStorage is deprecated:UserWarning"),  # which 2.11 uses
]

SUM = """
@triton_heuristics.reduction(
    size_hints={'x': 4096, 'r0_': 8192},
    triton_meta={'signature': {'in_ptr0': '*fp16', 'out_ptr0': '*fp32'}},
    inductor_meta={'grid_type': 'Grid1D'}
)
@triton.jit
def triton_red_fused_sum_0(in_ptr0, out_ptr0, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    tmp0 = tl.load(in_ptr0 + (r0_1 + 8192*x0), r0_mask & xmask, other=0.0)
    tl.store(out_ptr0 + (x0), tl.sum(tmp0, 1), xmask)
"""
H100 = Device("NVIDIA H100 80GB HBM3", "cuda", "sm_90", 132, 1980.0)
CONFIGS = [(32, 32, 16, 1, 2), (64, 64, 64, 3, 8), (128, 128, 64, 3, 4), (64, 128, 128, 4, 4)]
PRODUCT = Product(128, 2048, 2048, dtype="float16", layout="nt")


def part(sms: int) -> Platform:
    return Platform(H100, "green_context", sms, sms, {"driver": "580"})


class Fixed:
    """Predicts what it is told, kernel by kernel; nothing of others."""

    def __init__(self, seconds: dict[Kernel, float], identity: str = "fixed") -> None:
        self.seconds, self.identity = seconds, identity
        self.asked: list[tuple[Product, int]] = []

    def predict_seconds(self, product: Product, kernels: Sequence[Kernel], sms: int, device: str) -> Any:
        self.asked.append((product, sms))
        return np.array([self.seconds.get(each, np.nan) for each in kernels])


@pytest.fixture
def timings(tmp_path: Path) -> ProductTimings:
    return ProductTimings(tmp_path / "timings.jsonl")


@pytest.fixture
def graph() -> Iterator[None]:
    """A graph, which Inductor's candidates refer to."""
    with V.set_graph_handler(GraphLowering(torch.fx.symbolic_trace(torch.nn.Identity()))):
        yield


def buffer(name: str, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype = torch.float16) -> Any:
    layout = ir.FixedLayout(torch.device("cuda", 0), dtype, list(size), list(stride))
    return ir.InputBuffer(name=name, layout=layout)


def inputs_of(m: int = 128, n: int = 2048, k: int = 2048, *, device: str = "cuda") -> MMKernelInputs:
    """Inputs of a linear layer without a bias."""
    inputs = MMKernelInputs([buffer("a", (m, k), (k, 1)), buffer("b", (k, n), (1, k))])
    if device != "cuda":
        for each in inputs.nodes():
            each.layout.device = torch.device(device)
    return inputs


def triton(template: Any, inputs: Any, block: Sequence[int], **more: Any) -> KernelTemplateChoice:
    names = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_stages", "num_warps")
    options = dict(zip(names, block, strict=True)) | {"GROUP_M": 8, "EVEN_K": True} | more
    return KernelTemplateChoice(
        template, DictKernelTemplateParams(options), {}, inputs.output_layout(), inputs
    )


def plain(template: Any, inputs: Any, **options: Any) -> KernelTemplateChoice:
    return KernelTemplateChoice(
        template, DictKernelTemplateParams(options), {}, inputs.output_layout(), inputs
    )


def candidates(inputs: Any) -> dict[str, Any]:
    """As Inductor hands them over: generators by template."""
    return {
        aten_mm.uid: iter([plain(aten_mm, inputs)]),
        mm_template.uid: iter([triton(mm_template, inputs, each) for each in CONFIGS]),
        persistent_tma_mm_template.uid: iter(
            [triton(persistent_tma_mm_template, inputs, (128, 128, 64, 3, 8), NUM_SMS=132)]
        ),
    }


def chosen(plan: SmPlan, inputs: Any, operator: str = "mm", given: dict[str, Any] | None = None) -> list[Any]:
    return SmChoices(plan)._finalize_template_configs(given or candidates(inputs), inputs, [], operator)


def test_the_shortlist_has_the_library_and_the_most_promising() -> None:
    seconds = np.array([5.0, 2.0, np.nan, 1.0, 4.0])
    library = [True, False, False, False, False]
    assert choose_to_time(seconds, library, 3) == [3, 1, 0]
    assert choose_to_time(seconds, library, 1) == [0]
    assert choose_to_time(seconds, library, 9) == [3, 1, 4, 0, 2]


def test_ties_of_the_shortlist_keep_their_order() -> None:
    assert choose_to_time(np.ones(6), [False] * 6, 3) == [0, 1, 2]
    assert choose_to_time(np.full(4, np.nan), [False, False, True, False], 3) == [0, 1, 2]


@pytest.mark.parametrize(
    ("seconds", "first"), [([3.0, 2.0, 2.0], 1), ([1.0, 2.0, 2.0], 0), ([np.nan] * 3, 0)]
)
def test_without_timing_the_best_is_taken_or_the_library(seconds: list[float], first: int) -> None:
    assert choose_to_time(np.array(seconds), [True, False, False], 0) == [first]


def test_candidates_that_are_alike_get_one_time() -> None:
    assert even_out({"a": 1.005, "b": 1.0, "c": 1.02}) == {"a": 1.0, "b": 1.0, "c": 1.02}
    assert even_out({"a": float("inf"), "b": 2.0}) == {"a": float("inf"), "b": 2.0}


@pytest.mark.usefixtures("graph")
def test_a_linear_layer_is_read() -> None:
    assert read_product(inputs_of(), "mm") == PRODUCT
    bias = buffer("c", (128, 2048), (0, 1))
    with_bias = MMKernelInputs([bias, *inputs_of().nodes()], scalars={"alpha": 1, "beta": 1})
    assert read_product(with_bias, "addmm") == PRODUCT._replace(epilogue="bias")


@pytest.mark.usefixtures("graph")
def test_batches_layouts_and_dtypes_are_read() -> None:
    a = buffer("a", (8, 16, 64), (1024, 1, 16), torch.bfloat16)
    b = buffer("b", (8, 64, 32), (2048, 32, 1), torch.bfloat16)
    read = read_product(MMKernelInputs([a, b]), "bmm")
    assert read == Product(16, 32, 64, batch=8, dtype="bfloat16", layout="tn")


def scaled_inputs(k: int = 768, *more: Any) -> Any:
    """Of a product in 8 bits with a scale for each row and column, in the order of Inductor."""
    a = buffer("a", (128, k), (k, 1), torch.float8_e4m3fn)
    b = buffer("b", (k, 2048), (1, k), torch.float8_e4m3fn)
    scales = (buffer("x", (128, 1), (1, 1), torch.float32), buffer("y", (1, 2048), (2048, 1), torch.float32))
    return MMKernelInputs([a, b, *scales, *more], mat1_idx=0, mat2_idx=1, out_dtype=torch.bfloat16)


@pytest.mark.usefixtures("graph")
def test_a_scaled_product_is_read_with_and_without_a_bias() -> None:
    expected = Product(128, 2048, 768, dtype="float8_e4m3", layout="nt")
    assert read_product(scaled_inputs(), "scaled_mm") == expected
    bias = buffer("z", (2048,), (1,), torch.bfloat16)
    assert read_product(scaled_inputs(768, bias), "scaled_mm") == expected._replace(epilogue="bias")


@pytest.mark.usefixtures("graph")
def test_a_scaled_product_of_a_short_k_is_left_to_inductor() -> None:
    assert read_product(scaled_inputs(16), "scaled_mm") is None


@pytest.mark.usefixtures("graph")
@pytest.mark.parametrize(("precision", "dtype"), [("highest", "float32"), ("high", "tfloat32")])
def test_float32_is_what_the_tensor_cores_may_round(precision: str, dtype: str) -> None:
    a, b = (buffer(name, (64, 64), (64, 1), torch.float32) for name in "ab")
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        read = read_product(MMKernelInputs([a, b]), "mm")
    finally:
        torch.set_float32_matmul_precision(before)
    assert read is not None
    assert read.dtype == dtype


@pytest.mark.usefixtures("graph")
def test_kernels_are_read() -> None:
    inputs = inputs_of()
    assert read_choice(plain(aten_mm, inputs)) == Kernel("torch")
    assert read_choice(triton(mm_template, inputs, (64, 128, 32, 4, 8))) == Kernel(
        "triton", "plain", 64, 128, 32, 4, 8
    )
    assert read_choice(triton(persistent_tma_mm_template, inputs, (64, 128, 32, 4, 8))) == Kernel(
        "triton", "tma", 64, 128, 32, 4, 8, programs_per_sm=1
    )
    assert read_choice(plain(decompose_k_subgraph_template, inputs, k_split=16)) == Kernel(
        "torch", "decompose-k", splits=16
    )


@pytest.mark.usefixtures("graph")
def test_more_configs_are_new_and_fit() -> None:
    inputs = inputs_of(m=20, n=2048, k=96)
    known = [triton(mm_template, inputs, each) for each in CONFIGS]
    more = [each.params.to_kwargs() for each in more_choices([plain(aten_mm, inputs), *known], 20, 2048, 96)]
    blocks = [tuple(each[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K")) for each in more]
    assert blocks
    assert len(set(map(str, more))) == len(more)
    assert all(m <= 32 and k <= 128 for m, _, k in blocks)
    assert all(each["EVEN_K"] == (96 % each["BLOCK_K"] == 0) for each in more)


@pytest.mark.usefixtures("graph")
def test_few_are_kept_and_the_library_is_among_them(timings: ProductTimings) -> None:
    best = Kernel("triton", "plain", 64, 128, 128, 4, 4)
    model = Fixed({best: 1.0, Kernel("torch"): 9.0})
    kept = chosen(SmPlan(part(32), 2, model, timings), inputs_of())
    assert [read_choice(each) for each in kept] == [best, Kernel("torch")]
    assert model.asked == [(PRODUCT, 32)]


@pytest.mark.usefixtures("graph")
def test_one_is_taken_where_nothing_is_timed(timings: ProductTimings) -> None:
    best = Kernel("triton", "plain", 64, 128, 128, 4, 4)
    kept = chosen(SmPlan(part(32), 0, Fixed({best: 1.0}), timings), inputs_of())
    assert [read_choice(each) for each in kept] == [best]


def test_in_float32_nothing_but_the_library_is_taken_untimed(timings: ProductTimings) -> None:
    library, ours = Kernel("torch"), Kernel("triton", "plain", 64, 64, 64, 3, 8)
    model = Fixed({library: 9.0, ours: 1.0})
    product = PRODUCT._replace(dtype="float32")
    assert SmPlan(part(32), 0, model, timings).choose(product, [ours, library]) == [1]
    assert SmPlan(part(32), 2, model, timings).choose(product, [ours, library]) == [0, 1]


@pytest.mark.usefixtures("graph")
def test_persistent_kernels_get_a_program_for_each_granted_sm(timings: ProductTimings) -> None:
    best = Kernel("triton", "tma", 128, 128, 64, 3, 8, programs_per_sm=1)
    (kept,) = chosen(SmPlan(part(24), 0, Fixed({best: 1.0}), timings), inputs_of())
    assert kept.params.to_kwargs()["NUM_SMS"] == 24


@pytest.mark.usefixtures("graph")
def test_the_shipped_model_chooses_otherwise_on_few_sms(timings: ProductTimings) -> None:
    few, all_ = (
        [
            read_choice(each)
            for each in chosen(SmPlan(part(sms), 0, open_ranking("default"), timings), inputs_of())
        ]
        for sms in (8, 132)
    )
    assert few[0] is not None
    assert few != all_


@pytest.mark.usefixtures("graph")
@pytest.mark.parametrize("reason", ["device cpu", "int_mm of unknown sizes or types", "one candidate"])
def test_what_is_not_known_is_left_to_inductor(reason: str, timings: ProductTimings) -> None:
    before = report().get(f"left to Inductor: {reason}", 0)
    inputs = inputs_of(device="cpu") if reason == "device cpu" else inputs_of()
    given = candidates(inputs) if reason != "one candidate" else {aten_mm.uid: iter([plain(aten_mm, inputs)])}
    operator = "int_mm" if "int_mm" in reason else "mm"
    expected = [each for key in given.copy() for each in list(given[key])]
    again = candidates(inputs) if reason != "one candidate" else {aten_mm.uid: iter([plain(aten_mm, inputs)])}
    kept = chosen(SmPlan(part(32), 1, Fixed({}), timings), inputs, operator, again)
    assert len(kept) == len(expected)
    assert report()[f"left to Inductor: {reason}"] == before + 1


@pytest.mark.usefixtures("graph")
def test_a_model_that_fails_leaves_the_candidates_to_inductor(timings: ProductTimings) -> None:
    class Failing(Fixed):
        def predict_seconds(self, *_: Any) -> Any:
            raise KeyError("unknown")

    inputs = inputs_of()
    with pytest.warns(RuntimeWarning, match="left to Inductor: 'unknown'"):
        kept = chosen(SmPlan(part(32), 1, Failing({}), timings), inputs)
    assert len(kept) == len(CONFIGS) + 2
    assert report()["left to Inductor: KeyError"] >= 1


@pytest.mark.usefixtures("graph")
def test_a_store_that_cannot_be_written_fails_no_compilation(
    timings: ProductTimings, selector: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(timings, "keep", full)
    caller = Caller(plain(aten_mm, inputs_of()), "a")
    with applied(SmPlan(part(32), 6, Fixed({}), timings)), pytest.warns(RuntimeWarning, match="No space"):
        assert selector.lookup([caller], "mm", "inputs", lambda _: {caller: 0.5}) == {caller: 0.5}


@pytest.mark.usefixtures("graph")
def test_symbolic_sizes_are_left_to_inductor(timings: ProductTimings) -> None:
    import sympy

    rows = sympy.Symbol("s0", positive=True, integer=True)
    inputs = MMKernelInputs([buffer("a", (rows, 64), (64, 1)), buffer("b", (64, 32), (32, 1))])
    assert read_product(inputs, "mm") is None


@pytest.mark.usefixtures("graph")
def test_unknown_templates_are_kept_unless_nothing_is_timed(timings: ProductTimings) -> None:
    inputs = inputs_of()
    given = {
        aten_mm.uid: [plain(aten_mm, inputs)],
        bmm_template.uid: [triton(bmm_template, inputs, CONFIGS[1])],
        "new": [plain(aten_addmm, inputs)],
    }
    given["new"][0].template = type("New", (), {"uid": "triton::of-tomorrow"})()
    for keep, names in ((1, ["aten::mm", "triton::of-tomorrow"]), (0, ["aten::mm"])):
        plan = SmPlan(part(32), keep, Fixed({}), timings)
        kept = chosen(plan, inputs, given={key: iter(each) for key, each in given.items()})
        assert [each.template.uid for each in kept] == names


@pytest.mark.usefixtures("graph")
def test_what_the_store_knows_is_not_timed_again(timings: ProductTimings) -> None:
    first, second = Kernel("triton", "plain", 64, 128, 128, 4, 4), Kernel("torch")
    model = Fixed({first: 1.0, second: 9.0})
    timings.keep(PRODUCT, part(32), {first: 2e-5, second: 1e-5}, "warm")
    assert [read_choice(each) for each in chosen(SmPlan(part(32), 2, model, timings), inputs_of())] == [
        second
    ]
    assert len(chosen(SmPlan(part(64), 2, model, timings), inputs_of())) == 2


def test_timings_are_those_of_their_sms_versions_and_product(timings: ProductTimings, tmp_path: Path) -> None:
    kernel, failed = Kernel("torch"), Kernel("triton", "plain", 256, 256, 64, 5, 4)
    timings.keep(PRODUCT, part(32), {kernel: 2e-5, failed: float("inf")}, "warm")
    timings.keep(PRODUCT, part(32), {kernel: 1e-5}, "warm")
    other = ProductTimings(tmp_path / "timings.jsonl")  # as another process has it
    assert other.known(PRODUCT, part(32)) == {kernel: 1e-5, failed: float("inf")}
    assert other.known(PRODUCT, part(64)) == {}
    assert other.known(PRODUCT._replace(layout="nn"), part(32)) == {}
    newer = Platform(H100, "green_context", 32, 32, {"driver": "590"})
    assert other.known(PRODUCT, newer) == {}


def test_nothing_is_kept_where_all_failed(timings: ProductTimings) -> None:
    timings.keep(PRODUCT, part(32), {Kernel("torch"): float("inf")}, "warm")
    assert timings.known(PRODUCT, part(32)) == {}


def test_a_plan_is_applied_to_this_thread_and_taken_back(timings: ProductTimings) -> None:
    plan = SmPlan(part(32), 6, Fixed({}), timings)
    before = V.choices, config.autotune_local_cache, torch.compiler.config.cache_key_tag
    elsewhere: list[Any] = []
    with applied(plan):
        assert isinstance(V.choices, SmChoices)
        assert config.autotune_local_cache == plan.identity  # in the source of each kernel
        assert torch.compiler.config.cache_key_tag == plan.identity
        thread = threading.Thread(target=lambda: elsewhere.append(V.choices))
        thread.start()
        thread.join()
    assert type(elsewhere[0]) is InductorChoices
    assert (V.choices, config.autotune_local_cache, torch.compiler.config.cache_key_tag) == before


def test_a_plan_that_times_no_fusion_goes_by_inductors_rule(
    timings: ProductTimings, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed: list[bool] = []
    fuse = lambda *nodes, **named: timed.append(config.benchmark_epilogue_fusion)  # noqa: E731
    monkeypatch.setattr(scheduler.Scheduler, "speedup_by_fusion", fuse)
    monkeypatch.setattr(_install, "_let_rules_fuse", cache(_install._let_rules_fuse.__wrapped__))
    for times_fusion in (False, True):
        with applied(SmPlan(part(32), 6, Fixed({}), timings, times_fusion)):
            scheduler.Scheduler.speedup_by_fusion(None, None, node2=None)
            assert config.benchmark_epilogue_fusion  # where products are lowered
    scheduler.Scheduler.speedup_by_fusion(None, None, node2=None)
    assert timed == [False, True, True]


def test_products_have_kernels_of_triton_where_a_limit_hides_most_sms(
    timings: ProductTimings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(utils, "is_big_gpu", lambda *_: False)
    renewed = cache(_install._try_templates_on_parts.__wrapped__)
    monkeypatch.setattr(_install, "_try_templates_on_parts", renewed)
    small = replace_fields(part(32), device=replace_fields(H100, sms=40))
    found = []
    for platform in (part(32), small):
        with applied(SmPlan(platform, 6, Fixed({}), timings)):
            found.append(utils.is_big_gpu(0))
    assert found == [True, False]
    assert not utils.is_big_gpu(0), "without a plan"


def test_a_plan_writes_blocks_into_the_code_of_kernels(timings: ProductTimings) -> None:
    plan = SmPlan(part(32), 0, Fixed({}), timings, False, shipped_blocks())
    made = plan.choose_blocks(SUM)
    assert made.count("triton.Config(") == 1
    assert plan.choose_blocks(made) == made
    timed = SmPlan(part(32), 6, Fixed({}), timings, False, shipped_blocks())
    assert timed.choose_blocks(SUM).count("triton.Config(") == 3
    without = SmPlan(part(32), 6, Fixed({}), timings)
    elsewhere = replace_fields(part(32), device=replace_fields(H100, name="NVIDIA L4"))
    other = SmPlan(elsewhere, 6, Fixed({}), timings, False, shipped_blocks())
    assert without.choose_blocks(SUM) == other.choose_blocks(SUM) == SUM
    assert report()["left to Inductor: blocks of a kernel"] >= 2


def test_what_is_compiled_for_one_number_asks_for_no_sms(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = (compile_for(torch.relu, sms=sms) for sms in (1, [1, 2]))
    for each in (one, two):
        each._compiled[1] = torch.relu
    asked: list[int] = []
    monkeypatch.setattr(_compile, "platform_here", lambda: asked.append(1) or part(1))
    for each in (one, two):
        assert each(torch.tensor(-1.0)) == 0
    assert asked == [1]  # by the one for two


def test_only_by_default_blocks_are_those_of_the_model() -> None:
    for keep in (0, 6):
        assert compile_for(torch.relu, keep=keep)._plan.blocks is shipped_blocks()
        assert compile_for(torch.relu, keep=keep, mode="default")._plan.blocks is None
        assert compile_for(torch.relu, keep=keep, model=None)._plan.blocks is None


def test_inductor_compiles_what_a_plan_wrote(
    timings: ProductTimings, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str] = []
    monkeypatch.setattr(
        AsyncCompile,
        "triton",
        lambda _, kernel_name, source_code, device_str="cuda": given.append(source_code),
    )
    monkeypatch.setattr(_install, "_choose_blocks", cache(_install._choose_blocks.__wrapped__))
    with applied(SmPlan(part(32), 6, Fixed({}), timings, False, shipped_blocks())):
        AsyncCompile.triton(None, kernel_name="kernel", source_code=SUM)
        with pytest.warns(RuntimeWarning, match="left to Inductor"):
            AsyncCompile.triton(None, "kernel", "no code at all (", "cuda")
    AsyncCompile.triton(None, "kernel", SUM, "cuda")
    assert "cached_autotune" in given[0]
    assert given[1:] == ["no code at all (", SUM]


def test_plans_that_choose_otherwise_have_other_keys(timings: ProductTimings) -> None:
    plans = [
        SmPlan(part(sms), keep, Fixed({}, identity), timings, times_fusion)
        for sms in (16, 32)
        for keep in (0, 6)
        for identity in ("a", "b")
        for times_fusion in (False, True)
    ]
    assert len({each.identity for each in plans}) == len(plans)


class Caller:
    """A candidate as Inductor times it."""

    def __init__(self, choice: KernelTemplateChoice, name: str) -> None:
        self.annotations, self.name = {"ktc": choice}, name

    def hash_key(self) -> str:
        return self.name


@pytest.fixture
def selector(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What times candidates, with nothing of other tests; its file is written to a list."""
    made = select_algorithm.AlgorithmSelectorCache()
    made.written = []
    monkeypatch.setattr(made, "update_local_cache", made.written.append)
    monkeypatch.setattr(made, "get_local_cache", dict)
    monkeypatch.setattr(select_algorithm, "get_algorithm_selector_cache", lambda: made)
    monkeypatch.setattr(_install, "_timed", {})
    return made


@pytest.mark.usefixtures("graph")
def test_candidates_are_timed_once_by_each_plan_and_kept(
    timings: ProductTimings, selector: Any, in_graphs: list[str]
) -> None:
    del in_graphs
    inputs = inputs_of()
    callers = [Caller(triton(mm_template, inputs, CONFIGS[1]), "a"), Caller(plain(aten_mm, inputs), "b")]
    rounds: list[int] = []

    def benchmark(choices: Sequence[Any]) -> dict[Any, float]:
        rounds.append(len(choices))
        return dict(zip(choices, (0.0201, 0.02), strict=True))

    for sms in (32, 32, 16):
        with applied(SmPlan(part(sms), 6, Fixed({}), timings)):
            found = selector.lookup(callers, "mm", "inputs", benchmark, hint_override=None)
        assert found == dict.fromkeys(callers, 0.02)  # alike: the first is taken
    assert rounds == [2, 2]
    assert selector.written == []  # which holds timings on the whole GPU
    for sms in (16, 32):
        assert timings.known(PRODUCT, part(sms)) == {
            Kernel("triton", "plain", *CONFIGS[1]): pytest.approx(2.01e-5),
            Kernel("torch"): pytest.approx(2e-5),
        }


@pytest.fixture
def in_graphs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let timings be those of graphs, as on a GPU; what is written to the list is what times."""
    timer: list[str] = []

    @contextmanager
    def graph_timer(*, strictly: bool = False) -> Iterator[None]:
        if not strictly:  # for all that is compiled
            yield
            return
        timer.append("graphs")
        yield
        timer.remove("graphs")

    monkeypatch.setattr(_install, "graph_timer", graph_timer)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    return timer


@pytest.mark.usefixtures("graph")
def test_candidates_of_which_no_graph_can_be_made_are_timed_by_inductor(
    timings: ProductTimings, selector: Any, in_graphs: list[str]
) -> None:
    caller = Caller(plain(aten_mm, inputs_of()), "a")

    def benchmark(_: Any) -> dict[Any, float]:
        if in_graphs:
            in_graphs.clear()
            raise NoGraphError
        return {caller: 0.5}

    with applied(SmPlan(part(32), 6, Fixed({}), timings)):
        assert selector.lookup([caller], "mm", "inputs", benchmark) == {caller: 0.5}
    timings.refresh()
    (kept,) = timings._by_key.values()
    assert (kept.l2_policy, kept.runs_per_repeat) == ("flushed", 1)
    assert timings.known(PRODUCT, part(32)) == {}  # it is not compared with others'


def test_nothing_is_timed_before_it_is_compiled(timings: ProductTimings, selector: Any) -> None:
    with applied(SmPlan(part(32), 6, Fixed({}), timings)):
        assert selector.lookup([], "mm", "inputs", None) == {}


@pytest.mark.usefixtures("graph")
def test_without_a_plan_inductor_times_as_ever(timings: ProductTimings, selector: Any) -> None:
    with applied(SmPlan(part(32), 6, Fixed({}), timings)):
        pass  # adds what Inductor calls
    caller = Caller(plain(aten_mm, inputs_of()), "a")
    assert selector.lookup([caller], "mm", "inputs", lambda _: {caller: 0.5}) == {caller: 0.5}
    assert len(selector.written) == 1
    assert timings.known(PRODUCT, part(32)) == {}


@pytest.mark.parametrize(
    ("granted", "budgets", "expected"), [(40, [32, 64], 32), (48, [32, 64], 64), (8, [16], 16), (24, [], 24)]
)
def test_the_nearest_number_of_sms_is_found(granted: int, budgets: list[int], expected: int) -> None:
    assert nearest(granted, budgets) == expected


def test_of_two_numbers_as_near_the_smaller_is_taken() -> None:
    assert nearest(32, [64, 16]) == 16


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be known of former compilations."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    monkeypatch.setenv("COSTMODEL_INDUCTOR_STORE", str(tmp_path / "store.jsonl"))
    torch._dynamo.reset()


@pytest.mark.usefixtures("fresh")
def test_a_model_and_its_gradients_are_right() -> None:
    model = torch.nn.Linear(8, 4)
    x = torch.randn(3, 8)
    compiled = compile_for(model, mode="default")
    torch.testing.assert_close(compiled(x), model(x))
    compiled(x).square().sum().backward()
    found, model.weight.grad = model.weight.grad, None
    model(x).square().sum().backward()
    torch.testing.assert_close(found, model.weight.grad)


@pytest.mark.usefixtures("fresh")
def test_each_number_of_sms_has_its_own_code(monkeypatch: pytest.MonkeyPatch) -> None:
    from costmodel.integrations.inductor import _compile
    from costmodel.integrations.inductor._sms import platform_here

    here = platform_here()
    platforms = {sms: Platform(here.device, "threads", sms, sms) for sms in (1, 2, 4)}
    current = [1]
    monkeypatch.setattr(_compile, "platform_here", lambda: platforms[current[0]])
    compiled = compile_for(lambda x: x.sin() + 1, sms=[1, 4], mode="default")
    x = torch.ones(3)
    for current[0] in (1, 4, 2, 1):
        torch.testing.assert_close(compiled(x), x.sin() + 1)
    assert sorted(compiled._compiled) == [1, 4]


@pytest.mark.usefixtures("fresh")
def test_code_is_cached_by_plan() -> None:
    from torch._dynamo.utils import counters

    def hits_and_misses(identity: str) -> tuple[int, int]:
        torch._dynamo.reset()
        counters.clear()
        compile_for(lambda x: x.cos() * 2, mode="default", model=Fixed({}, identity))(torch.ones(3))
        of = counters["aot_autograd"]
        return of["autograd_cache_hit"], of["autograd_cache_miss"]

    assert hits_and_misses("one") == (0, 1)
    assert hits_and_misses("one") == (1, 0)
    assert hits_and_misses("another") == (0, 1)


@pytest.mark.usefixtures("fresh")
def test_code_that_compiles_by_itself_uses_what_is_installed() -> None:
    before = V.choices
    with install(keep=0):
        assert isinstance(V.choices, SmChoices)
        x = torch.ones(3)
        torch.testing.assert_close(torch.compile(lambda x: x + 2)(x), x + 2)
    assert V.choices is before
    installed = install()
    installed.uninstall()
    assert V.choices is before


@pytest.mark.parametrize(
    "wrong", [{"sms": 0}, {"sms": [16, -1]}, {"keep": -1}, {"mode": "fastest"}, {"model": "best"}]
)
def test_wrong_arguments_are_told(wrong: dict[str, Any]) -> None:
    with pytest.raises(CostModelError, match=next(iter(wrong))):
        compile_for(torch.nn.Identity(), **wrong)


@pytest.mark.usefixtures("graph")
@pytest.mark.parametrize(
    ("dtype", "kept"),
    [(torch.float16, aten_bias_addmm), (torch.float32, aten_addmm)],
    ids=("float16", "float32"),  # calls print their address, which differs by process
)
def test_of_two_calls_for_a_bias_one_is_kept(dtype: torch.dtype, kept: Any, timings: ProductTimings) -> None:
    sizes = (("c", (128, 256), (0, 1)), ("a", (128, 64), (64, 1)), ("b", (64, 256), (1, 64)))
    nodes = [buffer(name, size, stride, dtype) for name, size, stride in sizes]
    inputs = MMKernelInputs(nodes, scalars={"alpha": 1, "beta": 1})
    given = {each.uid: iter([plain(each, inputs)]) for each in (aten_bias_addmm, aten_addmm)}
    given[mm_template.uid] = iter([triton(mm_template, inputs, CONFIGS[1])])
    found = chosen(SmPlan(part(32), 1, Fixed({}), timings), inputs, "addmm", given)
    assert [each.template.uid for each in found] == [kept.uid]


@pytest.mark.usefixtures("graph")
def test_what_does_not_fit_in_shared_memory_is_not_taken(timings: ProductTimings) -> None:
    inputs = inputs_of()
    fits, large = (64, 64, 64, 3, 8), (128, 128, 128, 4, 8)
    model = Fixed({Kernel("triton", "plain", *fits): 2.0, Kernel("triton", "plain", *large): 1.0})
    given = {mm_template.uid: iter([triton(mm_template, inputs, each) for each in (fits, large)])}
    device = Device(H100.name, "cuda", "sm_90", 132, 1980.0, shared_bytes_per_sm=233_472)
    plan = SmPlan(Platform(device, "whole", 132, 132), 0, model, timings)
    (taken,) = chosen(plan, inputs, given=given)
    assert read_choice(taken) == Kernel("triton", "plain", *fits)


@pytest.mark.parametrize(  # as the compiler asked for it, or refused, on an H200
    ("dtype", "kernel", "expected"),
    [
        ("float16", Kernel("triton", "plain", 128, 128, 128, 4, 8), 262_144),
        ("float32", Kernel("triton", "plain", 64, 64, 128, 5, 4), 262_144),
        ("float32", Kernel("triton", "plain", 64, 128, 128, 4, 4), 294_912),
        ("float16", Kernel("torch"), 0),
    ],
)
def test_shared_memory_is_what_the_compiler_asks_for(dtype: str, kernel: Kernel, expected: int) -> None:
    assert shared_bytes(PRODUCT._replace(dtype=dtype), kernel) == expected


def test_the_shipped_model_knows_split_sums_and_no_other_device() -> None:
    model = open_ranking("default")
    kernels = [Kernel("torch"), Kernel("torch", "decompose-k", splits=16)]
    deep = Product(32, 32, 65536)
    on_h100 = model.predict_seconds(deep, kernels, 132, H100.name)
    assert np.isfinite(on_h100).all()
    assert np.isfinite(model.predict_seconds(deep, kernels, 132, "NVIDIA H200")).all()  # its twin
    assert np.isnan(model.predict_seconds(deep, kernels, 60, "NVIDIA of tomorrow")).all()


def traced(
    function: Any, *inputs: torch.Tensor, operator: Any = torch.ops.aten.mm.default
) -> list[torch.fx.Node]:
    """Its products, or other operators, in a graph of PyTorch's own operators."""
    from torch.fx.experimental.proxy_tensor import make_fx

    nodes = make_fx(function)(*inputs).graph.nodes
    return [each for each in nodes if each.target is operator]


def convolution(groups: int = 1, channels: int = 64) -> torch.fx.Node:
    """Of three by three pixels, of which each second is left out."""
    x, w = torch.ones(2, 32, 14, 14).half(), torch.ones(channels, 32 // groups, 3, 3).half()
    (node,) = traced(
        lambda x, w: torch.nn.functional.conv2d(x, w, stride=2, padding=1, groups=groups),
        x,
        w,
        operator=torch.ops.aten.convolution.default,
    )
    return node


def test_a_convolution_is_a_product_of_its_pixels() -> None:
    pixels = 2 * 7 * 7
    of_two_groups = Product(pixels, 64, 16 * 9, dtype="float16", layout="nt")
    assert read_convolution(convolution()) == (of_two_groups._replace(k=32 * 9), 1)
    assert read_convolution(convolution(groups=2)) == (of_two_groups, 2)
    (product,) = traced(lambda x, w: x @ w, torch.ones(4, 8), torch.ones(8, 8))
    assert read_convolution(product) is None
    assert read_convolution(None) is None


def configs_kept(plan: SmPlan, node: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    monkeypatch.setattr(V.graph, "current_node", node, raising=False)
    configs = SmChoices(plan).get_conv_configs("cuda")(392, 64, 32, dtype_size=2)
    return [(*each.kwargs.values(), each.num_stages, each.num_warps) for each in configs]


@pytest.mark.usefixtures("graph")
def test_few_kernels_of_a_convolution_are_kept(
    timings: ProductTimings, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton")  # whose configs they are

    def of(keep: int, node: Any) -> list[tuple[Any, ...]]:
        return configs_kept(SmPlan(part(32), keep, open_ranking("default"), timings), node, monkeypatch)

    unknown = SmPlan(part(32), 6, Fixed({}), timings)
    usual = configs_kept(unknown, convolution(), monkeypatch)
    assert len(usual) > 6
    assert of(6, None) == usual  # shapes are not known
    kept = of(6, convolution())
    assert len(kept) == 5
    assert set(kept) < set(usual)
    assert of(0, convolution()) == []  # the library's is taken
    assert of(6, convolution(groups=32, channels=32)) == []  # which is hundreds of times as fast


def test_what_follows_a_product_is_fusible_if_it_is_elementwise() -> None:
    x, w = torch.ones(4, 8), torch.ones(8, 8)
    (first, second) = traced(lambda x, w: (x @ w).view(2, 2, 8).relu().mul(2).view(4, 8) @ w, x, w)
    assert len(fusible_steps(first)) == 2
    assert fusible_steps(second) == []  # nothing follows
    (normed,) = traced(lambda x, w: torch.nn.functional.layer_norm(x @ w + x, (8,)), x, w)
    assert fusible_steps(normed) == []
    (cut,) = traced(lambda x, w: (x @ w).chunk(2, -1)[0].relu(), x, w)
    assert fusible_steps(cut) == []
    assert fusible_steps(None) == []


def test_costly_steps_are_faster_in_a_kernel_of_their_own() -> None:
    relu, gelu = (
        traced(each, torch.ones(4), operator=operator)
        for each, operator in (
            (torch.relu, torch.ops.aten.relu.default),
            (torch.erf, torch.ops.aten.erf.default),
        )
    )
    many, few = 1500 * 3072, 128 * 3072
    assert saved_by_fusing(relu, many, 2, 32) > 5e-6  # the result goes to memory and back
    assert saved_by_fusing(gelu, many, 2, 32) < -5e-6
    assert saved_by_fusing(gelu, few, 2, 32) > 0  # a start
    assert saved_by_fusing([], many, 2, 32) == 0


def test_nothing_is_fused_with_a_product_that_is_faster_alone(timings: ProductTimings) -> None:
    product = SimpleNamespace(is_template=lambda: True)

    def fuses(keep: int, function: Any, operator: Any, *, timed: bool = False, elements: int = 2**22) -> bool:
        origins = traced(function, torch.ones(4, 8), operator=operator)
        made = SimpleNamespace(get_origins=lambda: origins, get_numel=lambda: elements)
        nodes = [SimpleNamespace(node=made)]
        other = SimpleNamespace(get_nodes=lambda: nodes, is_template=lambda: False)
        choices = SmChoices(SmPlan(part(32), keep, Fixed({}), timings, times_fusion=timed))
        pairs = (product, other), (other, product)
        behind, before = (choices.can_fuse_vertical(None, *each, 1) for each in pairs)
        assert behind == before
        return behind

    relu, erf = torch.ops.aten.relu.default, torch.ops.aten.erf.default
    assert fuses(0, torch.relu, relu)
    assert not fuses(0, torch.erf, erf)
    assert not fuses(6, torch.erf, erf)
    assert fuses(0, torch.erf, erf, elements=2**18)
    assert fuses(6, torch.erf, erf, timed=True)  # Inductor times it


def test_a_call_of_the_library_pays_for_what_is_not_fused(timings: ProductTimings) -> None:
    library, ours = Kernel("torch"), Kernel("triton", "plain", 64, 64, 64, 3, 8)
    plan = SmPlan(part(16), 0, Fixed({library: 10e-6, ours: 11e-6}), timings)
    assert plan.choose(PRODUCT, [library, ours]) == [0]
    assert plan.choose(PRODUCT, [library, ours], 3e-6) == [1]
    timings.keep(PRODUCT, part(16), {library: 10e-6, ours: 11e-6}, "warm")
    timed = SmPlan(part(16), 2, Fixed({}), timings)
    assert timed.choose(PRODUCT, [library, ours], 3e-6) == [1]


def test_untimed_the_library_is_left_only_where_another_kernel_is_surely_faster(
    timings: ProductTimings,
) -> None:
    library, ours = Kernel("torch"), Kernel("triton", "plain", 64, 64, 64, 3, 8)
    for sms, library_us, chosen in ((32, 10.4, 0), (32, 10.6, 1), (132, 10.9, 0), (132, 11.1, 1)):
        plan = SmPlan(part(sms), 0, Fixed({library: library_us * 1e-6, ours: 10e-6}), timings)
        assert plan.choose(PRODUCT, [library, ours]) == [chosen]


def test_batched_products_are_known(timings: ProductTimings, graph: None) -> None:
    del graph
    a, b = buffer("a", (8, 16, 64), (1024, 64, 1)), buffer("b", (8, 64, 32), (2048, 32, 1))
    inputs = MMKernelInputs([a, b])
    given = {
        aten_bmm.uid: iter([plain(aten_bmm, inputs)]),
        bmm_template.uid: iter([triton(bmm_template, inputs, (16, 32, 64, 3, 2))]),
    }
    kept = chosen(SmPlan(part(32), 2, Fixed({}), timings), inputs, "bmm", given)
    assert [each.template.uid for each in kept] == [aten_bmm.uid, bmm_template.uid]


@pytest.mark.usefixtures("fresh")
def test_the_how_to_runs_on_a_cpu() -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "compile-for-part-of-a-gpu.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    ran = [exec(each, names) for each in blocks if "GreenContext" not in each]
    assert len(ran) == len(blocks) - 1
    assert names["compiled"].budgets == (116, 132)


def test_what_is_not_timed_in_graphs_is_timed_by_inductor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_timer, "_here", _timer._Here())
    seen: list[Any] = []

    def usual(run: Any, **named: Any) -> float:
        seen.append((run, named))
        return 0.5

    assert _timer._milliseconds(usual, print, rep=3) == 0.5
    assert seen == [(print, {"rep": 3})]


def test_what_no_graph_can_be_made_of_is_timed_by_inductor_unless_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(_: Any) -> float:
        raise NoGraphError

    monkeypatch.setattr(_timer, "_here", _timer._Here())
    monkeypatch.setattr(_timer, "_in_graph_ms", refused)
    _timer._here.in_graphs = True
    assert _timer._milliseconds(lambda _: 0.5, print) == 0.5
    _timer._here.strictly = True
    with pytest.raises(NoGraphError):
        _timer._milliseconds(lambda _: 0.5, print)


def test_what_is_tuned_at_the_first_call_is_tuned_in_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def graphs() -> Iterator[None]:
        begun.append("graphs")
        yield
        begun.append("end")

    begun: list[Any] = []
    monkeypatch.setattr(_timer, "graph_timer", graphs)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    code = _timer.FirstInGraphs(lambda inputs: begun.append(inputs) or (torch.ones(1), None))
    assert code([1])[0] == code([2])[0] == 1
    assert begun == ["graphs", [1], "end", [2]]


def test_this_process_keeps_kernels_under_the_assembler_of_the_workers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiler = pytest.importorskip("triton.backends.nvidia.compiler")
    from torch._inductor.runtime import compile_tasks

    def as_workers_do() -> None:
        monkeypatch.setenv("TRITON_PTXAS_PATH", str(assembler))

    assembler = tmp_path / "ptxas"  # as a wheel may hold one
    assembler.write_text("#!/bin/sh\necho release 99.1, V99.1.2\n")
    assembler.chmod(0o755)
    before = compiler.get_ptxas_version(80)  # Triton 3.9 has another for sm_90, which workers leave
    monkeypatch.setattr(compile_tasks, "_set_triton_ptxas_path", as_workers_do)
    _install._share_assembler.__wrapped__()
    try:
        assert compiler.get_ptxas_version(80) != before
    finally:
        monkeypatch.undo()
        compiler.get_ptxas_version.cache_clear()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_graph_gives_the_time_of_a_kernel_without_its_launch() -> None:
    from torch._inductor.runtime.benchmarking import benchmarker

    a = torch.randn(64, 64, device="cuda")
    out = torch.empty_like(a)
    with graph_timer():
        small = benchmarker.benchmark(lambda: torch.mm(a, a, out=out), device="cuda")
    large_a = torch.randn(4096, 4096, device="cuda")
    large_out = torch.empty_like(large_a)
    with graph_timer():
        large = benchmarker.benchmark(lambda: torch.mm(large_a, large_a, out=large_out), device="cuda")
    assert 0 < small < large
    assert benchmarker.benchmark(lambda: torch.mm(a, a, out=out), device="cuda") > small  # with its launch
