"""``autotune``: a drop-in for ``triton.autotune``."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from costmodel.arguments import check_kind
from costmodel.integrations.triton._autotuner import Autotuner, Mode
from costmodel.integrations.triton._platform import current_platform
from costmodel.integrations.triton._question import LaunchHints
from costmodel.records._platform import Platform

if TYPE_CHECKING:
    from costmodel.transfer.prediction._model import Model


def autotune(  # noqa: PLR0913, PLR0917 (those of triton.autotune, and settings, all with defaults)
    configs: Sequence[Any] | Literal["auto"],
    key: Sequence[str],
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
    pre_hook: Callable[..., Any] | None = None,
    post_hook: Callable[..., Any] | None = None,
    warmup: int | None = None,
    rep: int | None = None,
    use_cuda_graph: bool = False,
    do_bench: Callable[..., Any] | None = None,
    cache_results: bool = False,
    *,
    store: Path | str | None = None,
    model: "Model | Path | str | None" = None,
    shortlist: int | None = None,
    mode: Mode = "measure",
    platform: Platform | Callable[[], Platform] | None = None,
    launch: LaunchHints | None = None,
    compile_workers: int | None = None,
) -> Callable[[Any], Autotuner]:
    """Decorate a ``@triton.jit`` function as ``triton.autotune`` does, for the SMs that are available.

    The first call of a kernel with a key, a device and a number of SMs chooses a config. Earlier timings are
    read from a record store, and new timings are written to it at once: a killed process loses at most one
    timing, and another process with the same key, device and SMs times nothing. Which configs are promising
    is told by timings of the kernel elsewhere and by what is read of it, see ``shortlist`` and ``mode``.

    Args:
        configs: As for ``triton.autotune``; so are the following arguments up to ``cache_results``. For
            ``"auto"`` 16 configs are made from the kernel and the arguments of the first call with a key, on
            an NVIDIA GPU. Chosen are every ``tl.constexpr`` without a default that the call does not give,
            warps and stages; the result must not depend on the choice.
        key: See ``triton.autotune``. Results are also kept apart by device, granted SMs, driver, version of
            Triton and source of the kernel.
        prune_configs_by: See ``triton.autotune``.
        reset_to_zero: See ``triton.autotune``.
        restore_value: See ``triton.autotune``.
        pre_hook: See ``triton.autotune``.
        post_hook: See ``triton.autotune``.
        warmup: See ``triton.autotune``.
        rep: See ``triton.autotune``.
        use_cuda_graph: See ``triton.autotune``. Its timer has a stream of its own and is therefore refused in
            a green context.
        do_bench: See ``triton.autotune``.
        cache_results: Accepted but not needed: the store keeps results.
        store: Path of the store, ``.jsonl`` or ``.db``, or a URL such as ``postgresql://host/name``. Of
            processes that share it, one times a kernel and the others wait for its timings. Default:
            ``$COSTMODEL_TRITON_STORE``, or ``~/.cache/costmodel/triton.jsonl``.
        model: A model of your own that ranks configs, or its file. Default: timings of the kernel elsewhere,
            and a model that comes with the package and knows any kernel by what is read of its configs.
        shortlist: Maximum number of configs to time, the most promising; more are timed if none of them runs.
            Default: 8 with a ``model``, else all, as in ``triton.autotune``.
        mode: When configs are timed. ``measure``: before the first call returns. ``background``: the first
            call runs the most promising config at once, and each later call first times one config, on its
            own stream and arguments, until the shortlist is done; nothing runs at the same time as the
            program's kernels. ``model``: never; the best config in the store runs if the store has as many
            timings as would be made, else the most promising one.
        platform: Platform that kernels run on, or a function that returns it. Needed if it cannot be
            detected, as on devices of other vendors than NVIDIA. Default: see ``current_platform``.
        launch: What is known about a launch in addition to its grid and warps: formulas by field of
            ``costmodel.records.KernelLaunch``, or a function of the arguments.
        compile_workers: Number of processes that compile configs at the same time, so that a config that
            crashes the compiler affects only itself. 0: configs are compiled in this process. Default: one
            per hardware thread.

    Raises:
        CostModelError: If a setting is invalid, or the model cannot be read. When the kernel is called: if
            the store cannot be read, no config runs, or the timer runs on other SMs than the kernel.

    Example:
        >>> @autotune(configs=[triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})], key=["n"])
        ... @triton.jit
        ... def copy(x, y, n, BLOCK: tl.constexpr): ...  # doctest: +SKIP
    """
    settings = {
        "reset_to_zero": reset_to_zero,
        "restore_value": restore_value,
        "pre_hook": pre_hook,
        "post_hook": post_hook,
        "prune_configs_by": prune_configs_by,
        "warmup": warmup,
        "rep": rep,
        "use_cuda_graph": use_cuda_graph,
        "do_bench": do_bench,
        "cache_results": cache_results,
    }
    ours = {
        "store": store,
        "model": model,
        "shortlist": shortlist,
        "mode": mode,
        "find_platform": _finder(platform),
        "launch": launch,
        "compile_workers": compile_workers,
    }
    return lambda fn: Autotuner(fn, configs, key, **settings, **ours)  # type: ignore[arg-type]


def _finder(platform: Platform | Callable[[], Platform] | None) -> Callable[[], Platform]:
    if platform is None:
        return current_platform
    check_kind("platform", platform, Platform | Callable, "a Platform, or a function that gives one")
    return (lambda: platform) if isinstance(platform, Platform) else platform
