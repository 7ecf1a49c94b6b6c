"""Inductor's choice of kernels for matrix products and convolutions, of which a model keeps few."""

import threading
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch._inductor.choices import InductorChoices
from torch._inductor.virtualized import V

from costmodel.arrays import FloatArray
from costmodel.integrations.inductor._candidates import (
    choose_to_time,
    even_out,
    more_choices,
    only_sure,
    with_options,
)
from costmodel.integrations.inductor._describe import (
    as_kernel,
    is_number,
    read_choice,
    read_convolution,
    read_product,
    shared_bytes,
)
from costmodel.integrations.inductor._fused import TEMPLATE, read_fused, with_blocks
from costmodel.integrations.inductor._fusion import fusible_steps, saved_by_fusing
from costmodel.integrations.inductor._models import FusedModel, RanksProducts
from costmodel.integrations.inductor._timings import ProductTimings
from costmodel.products._product import RESULT_BYTES, Kernel, Product
from costmodel.records._platform import Platform

_RULES = 4  # rises when plans choose or time otherwise: code that was cached before is not theirs
_PERSISTENT = ("persistent", "tma")
# Of each group. A depthwise convolution took 26 us by the library, and by Inductor's template 8,480 at least.
_LEAST_CHANNELS = 16
_BLOCKS = 3  # of an elementwise or reduction kernel that are timed, where anything is
_RESERVED_BYTES = 1024  # of an SM's shared memory, in each block


@dataclass(frozen=True)
class SmPlan:
    """For what is compiled, and how kernels are chosen.

    Attributes:
        platform: The device, and the SMs that are granted on it.
        keep: How many candidates of a product are compiled and timed; 0: none is timed.
        model: Ranks candidates.
        timings: Has what was timed before, and keeps what is timed.
        times_fusion: Whether Inductor times what may be fused with a product, with it and apart; else it is
            fused unless its kernel runs out of registers.
        blocks: Chooses blocks of elementwise and reduction kernels; None: Inductor does.
    """

    platform: Platform
    keep: int
    model: RanksProducts
    timings: ProductTimings
    times_fusion: bool = True
    blocks: FusedModel | None = None

    @property
    def identity(self) -> str:
        """What tells kernels that were chosen by this plan from others."""
        others = self.blocks.identity if self.blocks else "inductor"
        chosen = f"{self.keep}/{self.model.identity}/{'timed' if self.times_fusion else 'ruled'}/{others}"
        return f"costmodel-{_RULES}/{self.platform.name}/{chosen}"

    @property
    def sms(self) -> int:
        """Granted SMs."""
        return self.platform.sms_granted

    def choose(self, product: Product, kernels: Sequence[Kernel], saved_s: float = 0.0) -> list[int]:
        """Return positions of the kernels to time, or of the one to take.

        Args:
            product: The product.
            kernels: Candidates.
            saved_s: What Triton's kernels save by what Inductor fuses into them behind the product.
        """
        of_library = [each.backend == "torch" and each.splits == 1 for each in kernels]
        extra_s = np.where([each.backend == "torch" for each in kernels], saved_s, 0.0)
        seconds = self._predicted(product, kernels) + extra_s
        if not self.keep:
            on_part = self.sms < self.platform.device.sms
            seconds = only_sure(seconds, of_library, product.dtype, on_part=on_part)
        chosen = choose_to_time(seconds, of_library, self.keep)
        if len(chosen) == 1:
            return chosen
        known = self.timings.known(product, self.platform)
        if all(kernels[i] in known for i in chosen):
            count("products answered by the store", 1)
            alike = even_out({i: known[kernels[i]] + float(extra_s[i]) for i in chosen})
            return [min(alike, key=alike.__getitem__)]
        return chosen

    def choose_blocks(self, source: str) -> str:
        """Return the code of a kernel that Inductor wrote with blocks of ours, or as it is.

        Args:
            source: Of the module of a kernel.
        """
        if self.blocks is None or TEMPLATE in source:
            return source
        kernel = read_fused(source) if self.blocks.knows(self.platform.device.name) else None
        chosen = [] if kernel is None else self.blocks.choose(kernel, self.sms, _BLOCKS if self.keep else 1)
        count("kernels given blocks" if chosen else "left to Inductor: blocks of a kernel", 1)
        return with_blocks(source, chosen) if chosen else source

    def choose_convolution(self, product: Product, kernels: Sequence[Kernel], groups: int) -> list[int]:
        """Return positions of a convolution's Triton kernels to time beside the library's.

        Args:
            product: The product that it is.
            kernels: Triton's, which are ranked as those of the product.
            groups: Groups of its channels.
        """
        if self.keep < 2 or product.n < groups * _LEAST_CHANNELS:
            return []
        seconds = self._predicted(product, kernels)
        if np.isnan(seconds).all():  # nothing is known of this device
            return list(range(len(kernels)))
        return choose_to_time(seconds, [False] * len(kernels), self.keep - 1)

    def _predicted(self, product: Product, kernels: Sequence[Kernel]) -> FloatArray:
        """Predict latencies, nan for what cannot run: it would fail once it is compiled."""
        device = self.platform.device
        seconds = self.model.predict_seconds(product, kernels, self.sms, device.name)
        most = device.shared_bytes_per_sm - _RESERVED_BYTES if device.shared_bytes_per_sm else np.inf
        fits = np.array([shared_bytes(product, each) <= most for each in kernels])
        return np.where(fits, seconds, np.nan)


class SmChoices(InductorChoices):  # type: ignore[misc]
    """Inductor's choices, of whose candidates for a product or a convolution a plan keeps few.

    Whatever it does not know (symbolic shapes, other operators, other devices) is left to Inductor.
    """

    def __init__(self, plan: SmPlan) -> None:
        super().__init__()
        self.plan = plan

    def _finalize_template_configs(
        self,
        template_choices: Any,
        kernel_inputs: Any,
        templates: Any,
        op_name: str,
        kwarg_overrides: Any = None,
    ) -> Any:
        choices = super()._finalize_template_configs(
            template_choices, kernel_inputs, templates, op_name, kwarg_overrides
        )
        try:
            product = _readable(choices, kernel_inputs, op_name)
            return choices if product is None else self._shortened(choices, product)
        except Exception as error:  # noqa: BLE001 (what Inductor compiles must not fail for its ranking)
            tell_left(error)
            return choices

    def get_conv_configs(self, device_type: str | None = "cuda") -> Any:
        """Return what yields configs of a convolution's template: of these, the plan keeps few."""
        usual = super().get_conv_configs(device_type)

        def few(*sizes: Any, **options: Any) -> Iterator[Any]:
            configs = list(usual(*sizes, **options))
            try:
                read = read_convolution(V.graph.current_node) if device_type == "cuda" else None
                if read is None:
                    count("left to Inductor: convolution", 1)
                    return iter(configs)
                product, groups = read
                kept = self.plan.choose_convolution(product, [as_kernel(each) for each in configs], groups)
            except Exception as error:  # noqa: BLE001 (as with products)
                tell_left(error)
                return iter(configs)
            count("convolutions", 1)
            count("candidates", len(configs) + 1)
            count("kept", len(kept) + 1)
            return iter([configs[i] for i in kept])

        return few

    def can_fuse_vertical(self, scheduler: Any, node1: Any, node2: Any, shared_data_score: Any) -> bool:
        """Tell whether a kernel may be fused with its consumer: with a product only where that saves time.

        Where fusion is timed, Inductor sees for itself.
        """
        product, other = (node1, node2) if node1.is_template() else (node2, node1)
        is_timed = self.plan.keep and self.plan.times_fusion
        try:
            loses = product.is_template() and not is_timed and self._loses(other)
        except Exception as error:  # noqa: BLE001 (as with products)
            tell_left(error)
            loses = False
        if loses:
            count("steps not fused with a product", 1)
            return False
        return bool(super().can_fuse_vertical(scheduler, node1, node2, shared_data_score))

    def _loses(self, kernel: Any) -> bool:
        """Whether a kernel takes less time by itself than with a product."""
        computed = [each.node for each in kernel.get_nodes()]
        sizes = [each.get_numel() for each in computed if is_number(each.get_numel())]
        steps = [step for each in computed for step in each.get_origins()]
        return bool(sizes) and saved_by_fusing(steps, int(max(sizes)), 2, self.plan.sms) < 0

    def _shortened(self, choices: list[Any], product: Product) -> list[Any]:
        left_out = slower_call({each.template.uid for each in choices}, product.dtype)
        choices = [each for each in choices if each.template.uid != left_out]
        choices += more_choices(choices, product.m, product.n, product.k)
        kernels = [read_choice(each) for each in choices]
        unknown = [each for each, kernel in zip(choices, kernels, strict=True) if kernel is None]
        known = [(each, kernel) for each, kernel in zip(choices, kernels, strict=True) if kernel is not None]
        steps, results = fusible_steps(V.graph.current_node), product.batch * product.m * product.n
        saved_s = saved_by_fusing(steps, results, RESULT_BYTES[product.dtype], self.plan.sms)
        saved_s = max(0.0, saved_s)  # what loses is not fused
        kept = self.plan.choose(product, [kernel for _, kernel in known], saved_s) if known else []
        count("products", 1)
        count("candidates", len(choices))
        count("unknown templates", len(unknown))
        rest = unknown if self.plan.keep else []
        count("kept", len(kept) + len(rest))
        return [self._for_part(*known[i]) for i in kept] + rest

    def _for_part(self, choice: Any, kernel: Kernel) -> Any:
        """Return the choice with as many programs as the part has SMs, where it says how many there are."""
        return with_options(choice, {"NUM_SMS": self.plan.sms}) if kernel.kind in _PERSISTENT else choice


def tell_left(error: Exception) -> None:
    """Count and say that Inductor goes on by itself."""
    count(f"left to Inductor: {type(error).__name__}", 1)
    warnings.warn(f"Kernels must be chosen, but are left to Inductor: {error}", RuntimeWarning, stacklevel=3)


def slower_call(templates: Set[str], dtype: str) -> str:
    """Which of two calls of the library for a product with a bias is left out.

    On parts of an H200 the one that adds the bias in its epilogue took .52 to .99 times as long in half
    precision (but for an odd size), and 1.3 to 1.6 times as long in float32.
    """
    if not templates >= {"aten::addmm", "aten::bias_addmm"}:
        return ""
    return "aten::bias_addmm" if dtype == "float32" else "aten::addmm"


def _readable(choices: Sequence[Any], inputs: Any, operator: str) -> Product | None:
    """The product whose candidates can be ranked; None, which is counted, for others."""
    if inputs.device_type != "cuda":
        count(f"left to Inductor: device {inputs.device_type}", 1)
        return None
    if len(choices) < 2:
        count("left to Inductor: one candidate", 1)
        return None
    product = read_product(inputs, operator)
    if product is None:
        count(f"left to Inductor: {operator} of unknown sizes or types", 1)
    return product


_counts: Counter[str] = Counter()
_counting = threading.Lock()


def count(what: str, times: int) -> None:
    """Count what became of a product or a candidate."""
    with _counting:
        _counts[what] += times


def report() -> dict[str, int]:
    """Return how many products and candidates this process has seen, kept, timed, and left to Inductor."""
    with _counting:
        return {what: times for what, times in sorted(_counts.items()) if times}
