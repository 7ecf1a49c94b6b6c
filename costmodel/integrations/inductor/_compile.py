"""torch.compile for the SMs that a model gets."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, Self

import torch
from msgspec.structs import replace as replace_fields

from costmodel.arguments import check_whole
from costmodel.errors import CostModelError
from costmodel.integrations.inductor._choices import SmPlan
from costmodel.integrations.inductor._install import applied
from costmodel.integrations.inductor._models import RanksProducts, open_ranking, shipped_blocks
from costmodel.integrations.inductor._sms import on_part, platform_here
from costmodel.integrations.inductor._timer import FirstInGraphs
from costmodel.integrations.inductor._timings import open_timings

_MOST_SMS = 4096
# Persistent kernels with tensor descriptors, which Inductor leaves out by itself, are up to a fifth faster
# for large products on 8 to 16 SMs of an H200.
_ALL_CANDIDATES = {"max_autotune_gemm": True, "triton.enable_persistent_tma_matmul": True}


def compile(  # noqa: PLR0913 (what PyTorch calls it; options)
    function: Callable[..., Any],
    /,
    *,
    sms: int | Sequence[int] | None = None,
    keep: int = 6,
    model: RanksProducts | str | None = "default",
    mode: str | None = None,
    store: Path | str | None = None,
    **options: Any,
) -> "SmDispatcher":
    """Compile a module or a function for the SMs that it gets, as ``torch.compile`` does for a whole GPU.

    Of Inductor's candidates for each matrix product, a model keeps those that should be fast on these SMs,
    and Inductor times them there: on a part of the GPU that is made for it, or on the current stream if it
    has these SMs. Training graphs work too; their backward passes are compiled in the same way.

    Args:
        function: What to compile.
        sms: For which numbers of SMs. Default: those of the current stream, whenever it is called.
        keep: How many candidates of a product are compiled and timed; the library's are always among them.
            With 0, the best by the model is taken, and nothing is timed.
        model: Ranks candidates; ``default`` for the one that comes with this package, None for Inductor's
            own order.
        mode: Of ``torch.compile``. Default: products, convolutions and three choices of a model for the
            blocks of each other kernel are timed, and what follows a product is fused by rule.
            ``max-autotune-no-cudagraphs`` tunes other kernels step by step and times fusion, too. With
            ``keep=0`` nothing is timed.
        store: Record store of timings, which other processes share. Default: ``$COSTMODEL_INDUCTOR_STORE``,
            or ``~/.cache/costmodel/inductor.jsonl``.
        options: Of ``torch.compile``, such as ``dynamic`` and ``fullgraph``.

    Returns:
        A callable that finds the SMs of the current stream at each call, and runs what was compiled for the
        nearest number.

    Raises:
        CostModelError: An argument is wrong.
    """
    budgets = _checked(sms)
    check_whole("keep", keep, 0, 1000)
    plan = _plan(keep, model, store)
    if mode is None:
        blocks = shipped_blocks() if model == "default" else None
        plan = replace(plan, times_fusion=False, blocks=blocks)
    return SmDispatcher(function, plan, budgets, _options_of(mode, keep), options)


def _plan(keep: int, model: RanksProducts | str | None, store: Path | str | None) -> SmPlan:
    return SmPlan(platform_here(), keep, open_ranking(model), open_timings(store))


class SmDispatcher:
    """Runs what was compiled for the SMs of the current stream.

    Args:
        function: What is compiled.
        plan: How kernels are chosen, for any number of SMs.
        budgets: Numbers of SMs to compile for; empty for those of the current stream.
        patches: Settings of Inductor.
        options: Of ``torch.compile``.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        plan: SmPlan,
        budgets: Sequence[int],
        patches: dict[str, Any],
        options: dict[str, Any],
    ) -> None:
        self.function, self.budgets = function, tuple(budgets)
        self._plan, self._patches, self._options = plan, patches, options
        self._compiled: dict[int, Callable[..., Any]] = {}
        self._nearest: dict[int, Callable[..., Any]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function."""
        # To ask for the SMs of a stream takes the host tens of microseconds.
        granted = self.budgets[0] if len(self.budgets) == 1 else platform_here().sms_granted
        if granted not in self._nearest:
            self._nearest[granted] = self.for_sms(nearest(granted, self.budgets))
        return self._nearest[granted](*args, **kwargs)

    def for_sms(self, sms: int) -> Callable[..., Any]:
        """Return what is compiled for a number of SMs, to be called on any stream."""
        if sms not in self._compiled:
            options = {"backend": Backend(self._plan, sms, self._patches), **_isolated(), **self._options}
            self._compiled[sms] = torch.compile(self.function, **options)
        return self._compiled[sms]


def nearest(granted: int, budgets: Sequence[int]) -> int:
    """Return the number of SMs that is nearest by ratio; of two as near, the smaller."""
    return min(budgets, key=lambda sms: (abs(math.log(sms / granted)), sms), default=granted)


class Backend:
    """A backend of ``torch.compile``: Inductor, with kernels chosen for a number of SMs.

    Args:
        plan: How kernels are chosen; its platform gets the number of SMs.
        sms: For how many.
        patches: Settings of Inductor.
    """

    def __init__(self, plan: SmPlan, sms: int, patches: dict[str, Any]) -> None:
        self._plan, self._sms, self._patches = plan, sms, patches

    def __call__(self, graph: Any, inputs: Sequence[Any]) -> Any:
        """Compile a graph."""
        from torch._inductor.compile_fx import compile_fx, compile_fx_inner

        @wraps(compile_fx_inner)
        def inner(*args: Any, **kwargs: Any) -> Any:  # backward passes come later, in another thread
            with self._applied():
                compiled = compile_fx_inner(*args, **kwargs)
            run = getattr(compiled, "current_callable", None)
            # PyTorch's own CUDA graphs give what they run memory of theirs, where none can be captured.
            if run and torch.cuda.is_available() and not self._patches.get("triton.cudagraphs"):
                compiled.current_callable = FirstInGraphs(run)
            return compiled

        with self._applied():
            return compile_fx(graph, inputs, inner_compile=inner, config_patches=self._patches)

    def get_compiler_config(self) -> Any:
        """Return Inductor's settings, for which Dynamo asks."""
        from torch._inductor.compile_fx import get_patched_config_dict

        return get_patched_config_dict(config_patches=self._patches)

    @contextmanager
    def _applied(self) -> Iterator[None]:
        with on_part(self._sms):
            granted = replace_fields(platform_here(), sms_requested=self._sms)  # the driver may round up
            with applied(replace(self._plan, platform=granted)):
                yield


def _checked(sms: int | Sequence[int] | None) -> list[int]:
    given = [] if sms is None else [sms] if isinstance(sms, int) else list(sms)
    return [check_whole("sms", each, 1, _MOST_SMS) for each in given]


def _options_of(mode: str | None, keep: int) -> dict[str, Any]:
    """Settings of a mode, and all candidates of products; with ``keep=0``, none that time kernels."""
    from torch._inductor import list_mode_options

    known = {name: dict(settings) for name, settings in list_mode_options().items()}
    known |= {None: {"max_autotune": True}}
    if mode not in known:
        raise CostModelError(f"mode must be one of {', '.join(filter(None, known))}, but got {mode!r}.")
    timed = {} if keep else {"max_autotune": False, "coordinate_descent_tuning": False}
    return known[mode] | timed | _ALL_CANDIDATES


def _isolated() -> dict[str, Any]:
    """Let each number of SMs have as many shapes as one, where PyTorch counts those of all together."""
    return {"isolate_recompiles": True} if "isolate_recompiles" in signature(torch.compile).parameters else {}


def install(
    *,
    keep: int = 6,
    model: RanksProducts | str | None = "default",
    store: Path | str | None = None,
) -> "Installed":
    """Let code that calls ``torch.compile`` itself choose kernels for the SMs of the current stream.

    It lasts until ``uninstall`` of what is returned, or the end of a ``with`` block, in this thread: other
    threads keep Inductor's choices. The SMs are those of the stream that is current now. Modes that time no
    products stay as they are, unless ``keep=0``, which costs no time.

    Args:
        keep: As of ``compile``.
        model: As of ``compile``.
        store: As of ``compile``.
    """
    check_whole("keep", keep, 0, 1000)
    return Installed(_plan(keep, model, store))


class Installed:
    """A plan in Inductor; as a context manager it ends with the block."""

    def __init__(self, plan: SmPlan) -> None:
        from torch._inductor import config

        self._stack = ExitStack()
        self._stack.enter_context(applied(plan))
        if not plan.keep:
            self._stack.enter_context(config.patch(max_autotune_gemm=True))

    def uninstall(self) -> None:
        """Give Inductor its own choices back, in the thread that installed others."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.uninstall()
