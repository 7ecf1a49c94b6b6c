"""Puts a plan into Inductor, for a while or until it is taken out."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial, wraps
from typing import Any

import torch
from torch._inductor import config, scheduler, select_algorithm, utils
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.virtualized import V

from costmodel.errors import CostModelError
from costmodel.integrations.inductor._candidates import even_out
from costmodel.integrations.inductor._choices import SmChoices, SmPlan, count, tell_left
from costmodel.integrations.inductor._describe import read_choice, read_product
from costmodel.integrations.inductor._timer import NoGraphError, graph_timer
from costmodel.integrations.inductor._timings import L2Policy
from costmodel.products._product import Kernel, Product

# Timings must be taken by this process on its stream, and none be answered that other SMs gave: Inductor's
# own caches of timings know no SMs. Settings that a version lacks are left out.
_OPTIONS = {
    "autotune_in_subproc": False,
    "pipeline_max_autotune_gemm": False,
    "autotune_remote_cache": False,
}


_BIG_GPU_SMS = 68  # on a GPU with fewer, Inductor tries no kernels of Triton for products

# Milliseconds of candidates, by plan, product and candidates.
_timed: dict[tuple[Any, ...], list[float]] = {}


@contextmanager
def applied(plan: SmPlan) -> Iterator[None]:
    """Let what this thread compiles meanwhile choose by a plan.

    Compiled graphs are cached under the plan's identity, so that a change of SMs or model compiles anew.
    """
    _hook_up(select_algorithm.get_algorithm_selector_cache())
    _let_rules_fuse()
    _try_templates_on_parts()
    _choose_blocks()
    _share_assembler()
    # What a kernel other than a product was tuned to is kept under a hash of its source, which holds this
    # setting: whatever is true lets it be kept, and the identity keeps it apart.
    options = _OPTIONS | {"autotune_local_cache": plan.identity}
    known = {name: value for name, value in options.items() if name in config.get_config_copy()}
    with ExitStack() as stack:
        stack.enter_context(config.patch(known))
        stack.enter_context(torch.compiler.config.patch(cache_key_tag=plan.identity))
        stack.enter_context(V.set_choices_handler(SmChoices(plan)))
        if torch.cuda.is_available():
            stack.enter_context(graph_timer())  # whether to fuse is decided by timing, too
        yield


@cache
def _share_assembler() -> None:
    """Let this process find the kernels that PyTorch's compile workers made.

    The wheel of PyTorch 2.11 holds a ptxas that workers use and this process does not. Triton keeps kernels
    under its version, so that each candidate was compiled again here, one by one.
    """
    with suppress(ImportError, AttributeError):  # of other versions, or without Triton
        from torch._inductor.runtime.compile_tasks import _set_triton_ptxas_path
        from triton.backends.nvidia.compiler import get_ptxas_version

        _set_triton_ptxas_path()
        get_ptxas_version.cache_clear()


@cache
def _let_rules_fuse() -> None:
    """Let a plan that times no fusion go by Inductor's own rule for it, which exists from PyTorch 2.11 on.

    The setting is changed where it is read to fuse alone: where products are lowered, it lets the candidates
    of all of them be compiled at once.
    """
    if not hasattr(scheduler, "_estimate_fused_epilogue_runtime"):
        return
    usual = scheduler.Scheduler.speedup_by_fusion

    @wraps(usual)
    def by_plan(*nodes: Any, **named: Any) -> Any:
        plan = _plan()
        if plan is None or plan.times_fusion:
            return usual(*nodes, **named)
        with config.patch(benchmark_epilogue_fusion=False):
            return usual(*nodes, **named)

    scheduler.Scheduler.speedup_by_fusion = by_plan


@cache
def _try_templates_on_parts() -> None:
    """Let products have Triton's kernels in a client that MPS limits, as on the whole GPU."""
    usual = utils.is_big_gpu

    @wraps(usual)
    def by_plan(*device: Any, **named: Any) -> bool:
        plan = _plan()
        return bool(plan and plan.platform.device.sms >= _BIG_GPU_SMS) or bool(usual(*device, **named))

    utils.is_big_gpu = by_plan


@cache
def _choose_blocks() -> None:
    """Let a plan write blocks into the code of elementwise and reduction kernels before it is compiled."""
    usual = AsyncCompile.triton

    @wraps(usual)
    def by_plan(compiler: Any, kernel_name: str, source_code: str, *others: Any, **named: Any) -> Any:
        plan = _plan()
        if plan is not None and plan.blocks is not None:
            try:
                source_code = plan.choose_blocks(source_code)
            except Exception as error:  # noqa: BLE001 (what Inductor compiles must not fail for its blocks)
                tell_left(error)
        return usual(compiler, kernel_name, source_code, *others, **named)

    AsyncCompile.triton = by_plan


def _hook_up(selector: Any) -> None:
    """Add what Inductor calls as it selects; it does nothing in a thread without a plan."""
    if _take_first not in selector.preprocessing_fns:
        selector.preprocessing_fns.append(_take_first)
    if "lookup" not in vars(selector):
        selector.lookup = partial(_look_up, selector.lookup)


def _plan() -> SmPlan | None:
    """Return the plan by which this thread compiles."""
    choices = V.choices
    return choices.plan if isinstance(choices, SmChoices) else None


def _take_first(choices: list[Any]) -> list[Any]:
    """Leave one of the candidates that no plan ranked, as of a convolution, if none may be timed."""
    plan = _plan()
    if plan is None or plan.keep or len(choices) < 2:
        return choices
    count("not ranked: the library's taken untimed", 1)
    of_library = [each for each in choices if isinstance(each, select_algorithm.ExternKernelCaller)]
    return (of_library or choices)[:1]


def _look_up(
    usual: Callable[..., dict[Any, float]],
    choices: Sequence[Any],
    operator: str,
    inputs: str,
    benchmark: Callable[[Any], dict[Any, float]] | None,
    **others: Any,
) -> dict[Any, float]:
    """Return milliseconds of candidates, timed once in this process by each plan.

    It takes the place of Inductor's own file of timings, which knows no SMs, where a thread has a plan. What
    is really timed goes into the plan's store. Candidates that are alike get the same time, so that the first
    of them is taken.
    """
    plan = _plan()
    if plan is None:
        return usual(choices, operator, inputs, benchmark, **others)
    names = tuple(each.hash_key() for each in choices)
    asked = operator, inputs, torch.get_float32_matmul_precision(), names, *others.values()
    key = plan.identity, *asked
    if key not in _timed:
        if benchmark is None:  # asked before anything is compiled
            return {}
        milliseconds, l2_policy = _timed_ms(benchmark, choices)
        count("rounds of timing", 1)
        count("candidates timed", len(milliseconds))
        for product, seconds in _by_product(milliseconds, operator).items():
            _keep(plan, product, seconds, l2_policy)
        alike = even_out({each: milliseconds[each] for each in choices})
        _timed[key] = [alike[each] for each in choices]
    return dict(zip(choices, _timed[key], strict=True))


def _keep(plan: SmPlan, product: Product, seconds: dict[Kernel, float], l2_policy: L2Policy) -> None:
    """Put timings into the store; what is compiled does not fail because they cannot be written."""
    try:
        plan.timings.keep(product, plan.platform, seconds, l2_policy)
    except (CostModelError, OSError) as error:
        count("timings that could not be kept", len(seconds))
        warnings.warn(f"Timings must be kept, but are not: {error}", RuntimeWarning, stacklevel=2)


def _timed_ms(
    benchmark: Callable[[Any], dict[Any, float]], choices: Sequence[Any]
) -> tuple[dict[Any, float], L2Policy]:
    """Time candidates in graphs; by Inductor's timer where that cannot be, all of them."""
    if torch.cuda.is_available():
        with suppress(NoGraphError), graph_timer(strictly=True):
            return benchmark(choices), "warm"
        count("rounds of timing without graphs", 1)
    return benchmark(choices), "flushed"


def _by_product(milliseconds: Mapping[Any, float], operator: str) -> dict[Product, dict[Kernel, float]]:
    """Seconds by kernel, of the candidates that are known."""
    found: dict[Product, dict[Kernel, float]] = {}
    for choice, latency_ms in milliseconds.items():
        known = choice.annotations.get("ktc")
        product = None if known is None else read_product(known.inputs, operator)
        kernel = None if known is None else read_choice(known)
        if product is not None and kernel is not None:
            found.setdefault(product, {})[kernel] = latency_ms * 1e-3
    return found
