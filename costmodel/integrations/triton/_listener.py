"""Keeps what Triton's own autotuner times, by the listener that Triton has from 3.9 on."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import triton

from costmodel.errors import CostModelError
from costmodel.integrations.triton._platform import current_platform
from costmodel.integrations.triton._question import make_question, triton_to_config
from costmodel.integrations.triton._timings import KernelTimings, TimingStore, open_store
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._platform import Platform

_PER_SECOND = 1e3  # Triton tells milliseconds
_TYPE = "torch."  # what types of tensors begin with; Triton tells them behind the values of the key


def keep_autotuned(
    store: Path | str | None = None, *, platform: Platform | Callable[[], Platform] | None = None
) -> Callable[..., None]:
    """Keep what ``triton.autotune`` times in a record store from now on, whatever kernels it decorates.

    Triton tells a kernel, the values of its key and the types of its tensors, but not what they are called:
    the sizes are a, b, c, in order. They are learned from, as those of any kernel; the drop-in ``autotune``,
    which knows more, compares only its own. Triton does not tell either whether its timer flushed the cache,
    which it does by default.

    Args:
        store: See ``autotune``.
        platform: Platform that kernels run on, or a function that returns it. Default: see
            ``current_platform``.

    Returns:
        The listener, which ``triton.knobs.autotuning.listener`` is now. One that was there is still called.

    Raises:
        CostModelError: This version of Triton has no listener, or the store cannot be opened.

    Example:
        >>> keep_autotuned("timings.jsonl")  # doctest: +SKIP
    """
    knobs = triton.knobs.autotuning
    if not hasattr(knobs, "listener"):
        raise CostModelError(
            f"Triton must be 3.9 or newer to tell what it times, but is {triton.__version__}. Decorate "
            "kernels with costmodel.integrations.triton.autotune."
        )
    opened, before = open_store(store), knobs.listener

    def listen(**told: Any) -> None:
        if before is not None:
            before(**told)
        is_drop_in = any(isinstance(each, tuple) for each in told["key"])  # which keeps its own
        if not told["cache_hit"] and not is_drop_in:
            where = platform() if callable(platform) else platform or current_platform()
            _keep(opened, told["fn"], told["key"], told["configs_timings"], where)

    knobs.listener = listen
    return listen


def _keep(
    store: TimingStore,
    function: Any,
    key: Sequence[Any],
    configs_timings: Mapping[Any, Sequence[float]],
    platform: Platform,
) -> None:
    """Keep the timings of a kernel with one key."""
    is_type = [isinstance(each, str) and each.startswith(_TYPE) for each in key]
    types = {str(i): each for i, each in enumerate(key) if is_type[i]}
    values = dict(zip(ascii_lowercase, [each for i, each in enumerate(key) if not is_type[i]], strict=False))
    asked = make_question(function, values, types, {name: name for name in values})
    timings = KernelTimings(store, asked.workload, asked.space, platform, "flushed")
    timings.keep(
        _measurement(timings, Candidate(asked.workload, asked.space, triton_to_config(config)), milliseconds)
        for config, milliseconds in configs_timings.items()
    )


def _measurement(timings: KernelTimings, candidate: Candidate, told: Sequence[float] | float) -> Measurement:
    milliseconds = list(told) if isinstance(told, Sequence) else [told]
    if all(math.isfinite(each) and each > 0.0 for each in milliseconds):
        return timings.made(candidate, Outcome.OK, [each / _PER_SECOND for each in milliseconds])
    return timings.made(candidate, Outcome.LAUNCH_ERROR, [], "Triton told no time of it")
