"""Triton's autotuner, knowing the SMs it has, and keeping what it timed."""

import inspect
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import triton
from triton.runtime import autotuner
from triton.runtime.jit import JITFunction

from costmodel.arguments import check_kind, check_texts, check_whole
from costmodel.errors import CostModelError
from costmodel.integrations.triton._compiling import compile_apart
from costmodel.integrations.triton._platform import is_capturing
from costmodel.integrations.triton._question import (
    LaunchHints,
    Question,
    find_launch,
    letters_of,
    make_question,
    read_resources,
    tensor_types,
    triton_to_config,
)
from costmodel.integrations.triton._shortlist import Adviser, Reader
from costmodel.integrations.triton._timings import KernelTimings, L2Policy, open_store
from costmodel.integrations.triton._tuning import QUANTILES, Compiler, TimingCheck, Tuning, check_tuning
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import KernelResources
from costmodel.records._platform import Platform
from costmodel.threads import cpu_threads

if TYPE_CHECKING:
    from costmodel.integrations.triton._reading import ReadRequest
    from costmodel.transfer._read_ranker import ExpectedTime
    from costmodel.transfer.prediction._model import Model

Mode = Literal["measure", "background", "model"]
AUTO: Literal["auto"] = "auto"

_SHORTLIST = 8  # configs that are timed where a model chooses them


class Autotuner(autotuner.Autotuner):  # type: ignore[misc]
    """A kernel with the configs to choose among; see ``autotune``, which makes it.

    Attributes:
        store_path: The record store, as it was named.
        letters: The letter of each argument of the key, which sizes are called by in names of workloads.
        begins_with: A config that is timed first, however promising others are; None for none.
    """

    begins_with: Any = None

    def __init__(  # noqa: PLR0913 (settings)
        self,
        fn: Any,
        configs: Sequence[Any] | Literal["auto"],
        key: Sequence[str],
        *,
        store: Path | str | None,
        model: "Model | Path | str | None",
        shortlist: int | None,
        mode: Mode,
        find_platform: Callable[[], Platform],
        launch: LaunchHints | None,
        compile_workers: int | None,
        **triton_settings: Any,
    ) -> None:
        super().__init__(
            fn,
            fn.arg_names,
            [] if configs == AUTO else configs,
            list(check_texts("key", key)),
            triton_settings.pop("reset_to_zero"),
            triton_settings.pop("restore_value"),
            **triton_settings,
        )
        if mode not in ("measure", "background", "model"):
            raise CostModelError(f"mode must be 'measure', 'background' or 'model', but got {mode!r}.")
        if shortlist is not None:
            check_whole("shortlist", shortlist, 1)
        if compile_workers is not None:
            check_whole("compile_workers", compile_workers)
        check_kind("launch", launch, Mapping | Callable | None, "formulas by name, or a function")
        if isinstance(configs, str) and configs != AUTO:
            raise CostModelError(f"configs must be a list, or {AUTO!r}, but got {configs!r}.")
        self._proposes = configs == AUTO
        self.store_path = store
        self.letters = letters_of(self.keys)
        self._mode = mode
        self._shortlist = _SHORTLIST if shortlist is None and model is not None else shortlist
        self._adviser = Adviser(model)
        self._find_platform = find_platform
        self._launch_facts = launch
        self._compile_workers = cpu_threads() if compile_workers is None else compile_workers
        flushes = triton_settings["do_bench"] is None and not triton_settings["use_cuda_graph"]
        self._l2_policy: L2Policy = "flushed" if flushes else "warm"
        self._tunings: dict[tuple[Any, ...], Tuning] = {}
        self._last: Tuning | None = None
        self._lock = threading.RLock()
        self._function, self._rules = fn, dict[str, Callable[[dict[str, Any]], Any]]()
        while hasattr(self._function.fn, "arg_names"):  # heuristics around the kernel
            self._rules |= self._function.values
            self._function = self._function.fn
        signature = inspect.signature(self._function.fn).parameters.values()
        self._defaults = {each.name: each.default for each in signature if each.default is not each.empty}

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Launch the kernel with the config that is best on the current SMs, as far as it is known."""
        arguments = {**dict(zip(self.arg_names, args, strict=False)), **kwargs}
        chooses = self._proposes or len(self.configs) > 1
        config = self._choose(arguments, args, kwargs) if chooses else self.configs[0]
        self.best_config = config
        if config.pre_hook is not None:
            config.pre_hook({**arguments, **config.all_kwargs()})
        return self.fn.run(*args, **kwargs, **config.all_kwargs())

    @property
    def configs_expected(self) -> "Mapping[Any, ExpectedTime]":
        """What each config takes that the last choice was among, timed or expected, with intervals of 90 %.

        Expected times are relative to the geometric mean of the configs until one of them is timed. Empty
        before the first choice; without configs that were neither timed nor read.
        """
        return {} if self._last is None else self._last.expected()

    def check_timings(self, *args: Any, **kwargs: Any) -> TimingCheck:
        """Time some configs again that the store has timings of, as when a service starts from a bundle.

        Takes a call's arguments, and ``grid``; runs the kernel on them as timing does, and keeps nothing.

        Example:
            >>> checked = kernel.check_timings(x, y, n, grid=grid)  # doctest: +SKIP
            >>> checked.holds(within=0.1)  # doctest: +SKIP
            True
        """
        kwargs = {"warmup": False, **kwargs}  # as a launch has it
        arguments = {**dict(zip(self.arg_names, args, strict=False)), **kwargs}
        values, types = self._key(arguments)
        platform = self._find_platform()
        with self._lock:
            self.nargs = {name: each for name, each in arguments.items() if name not in kwargs}
            try:
                asked = make_question(self._function, values, types, self.letters)
                tuning = self._tuning(asked, platform, kwargs, capturing=False)
                checked = check_tuning(tuning, lambda config: self._timed(config, platform, args, kwargs))
                for fastest in list(checked.ratios)[:1]:  # what it added up is undone
                    self.pre_hook({**self.nargs, **kwargs, **fastest.all_kwargs()}, reset_only=True)
                return checked
            finally:
                self.nargs = {}

    def _choose(self, arguments: Mapping[str, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return the config to launch now."""
        values, types = self._key(arguments)
        platform = self._find_platform()
        named = ((name, type(value), _known_again(value)) for name, value in values.items())
        key = (*named, *types.items(), platform.name)
        if key not in self.cache:
            # Threads, each with a part of the device, may launch one kernel: only one of them times it.
            with self._lock:
                self.nargs = {name: each for name, each in arguments.items() if name not in kwargs}
                try:
                    asked = make_question(self._function, values, types, self.letters)
                    return self._tune(key, asked, platform, args, kwargs)
                finally:
                    self.nargs = {}
        return self.cache[key]

    def _tune(
        self,
        key: tuple[Any, ...],
        asked: Question,
        platform: Platform,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Return the config to launch now, after as much timing as the mode asks for."""
        if key in self.cache:
            return self.cache[key]
        capturing, started = is_capturing(), key in self._tunings
        tuning = self._tunings.get(key) or self._tuning(asked, platform, kwargs, capturing)
        self._last = tuning
        if not capturing:  # a graph is no place to read: hooks of configs would become part of it
            self._tunings[key] = tuning
        most = {"measure": math.inf, "background": int(started), "model": 0}[self._mode]
        compiler = partial(self._compiled, args, kwargs)
        timed_s = 0.0 if capturing else self._time(tuning, most, compiler, args, kwargs)
        is_done = not tuning.ahead()
        by_model = self._mode == "model" and not is_done
        chosen = tuning.launchable(tuning.promising if by_model else tuning.best, compiler)
        if is_done or (self._mode == "model" and not capturing):
            self.cache[key] = chosen
            self._tunings.pop(key, None)
            self._tell(key, chosen, tuning, timed_s)
        if not started and triton.knobs.autotuning.print:
            expected = tuning.expected().get(chosen, "a time that nothing tells")
            print(
                f"costmodel orders configs of {asked.workload.name} on {platform.name} by {tuning.basis}. "
                f"{chosen} should take {expected}."
            )
        return chosen

    def _key(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the values of the arguments that the key names, defaults too, and types of the tensors."""
        given = {**self._defaults, **arguments}
        values = {name: given[name] for name in self.keys if name in given and name in self.arg_names}
        return values, tensor_types(given, self.arg_names)

    def _tuning(
        self, asked: Question, platform: Platform, kwargs: Mapping[str, Any], capturing: bool
    ) -> Tuning:
        if self._proposes:
            configs = self._proposed({**self.nargs, **kwargs}, platform)
        else:
            configs = list(self.prune_configs(kwargs))  # pruning may give a set, or one at a time
        if not configs:
            raise CostModelError(
                f"prune_configs_by must leave a config of {asked.workload.name}, but leaves none."
            )
        arguments = {**self.nargs, **kwargs}
        candidates = [
            Candidate(
                asked.workload,
                asked.space,
                triton_to_config(config),
                find_launch(arguments, config, kwargs.get("grid"), self._launch_facts),
            )
            for config in configs
        ]
        wanted = self._shortlist or len(configs)
        is_choosing = self._mode != "measure" or wanted < len(configs)
        read = self._reader(asked, configs, arguments, platform) if is_choosing and not capturing else None
        store = open_store(self.store_path)
        timings = KernelTimings(store, asked.workload, asked.space, platform, self._l2_policy)
        first = None if self.begins_with is None else configs.index(self.begins_with)
        return Tuning(configs, candidates, timings, self._adviser, wanted, read, first)

    def _proposed(self, arguments: Mapping[str, Any], platform: Platform) -> Sequence[Any]:
        """Make a list of configs for a launch, as the author gave none."""
        from costmodel.integrations.triton._proposing import propose_for

        request = self._request(arguments, platform)
        return propose_for(request, platform, self._compile_workers)

    def _request(self, arguments: Mapping[str, Any], platform: Platform) -> "ReadRequest":
        from costmodel.integrations.triton._reading import ReadRequest

        given = {name: value for name, value in arguments.items() if name not in ("grid", "warmup")}
        architecture = platform.device.architecture
        return ReadRequest(self._function, given, arguments.get("grid"), architecture, self._rules)

    def _reader(
        self, asked: Question, configs: Sequence[Any], arguments: Mapping[str, Any], platform: Platform
    ) -> Reader | None:
        """What reads configs of this launch; None under the interpreter, and for GPUs of other vendors."""
        if platform.device.kind != "cuda" or not isinstance(self._function, JITFunction):
            return None
        from costmodel.integrations.triton._reading import LaunchReader

        request = self._request(arguments, platform)
        return LaunchReader(request, asked, configs, self._compile_workers)

    def _time(
        self,
        tuning: Tuning,
        most: float,
        compiler: Compiler,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> float:
        """Time up to so many of the configs that are still to be timed; tell how many seconds it took.

        Of processes that share a store one does; the others take over what it finds.
        """
        timed = 0
        if most and tuning.lacking():
            self._check_timer()
        with tuning.timings.turn(lambda: not most or not tuning.lacking(), waits=most > 1) as is_ours:
            start = time.perf_counter()
            while is_ours and timed < most and (position := tuning.next(compiler)) is not None:
                tuning.time(
                    position, lambda config: self._timed(config, tuning.timings.platform, args, kwargs)
                )
                timed += 1
        if timed:
            best = tuning.configs[tuning.best()]
            self.pre_hook({**self.nargs, **kwargs, **best.all_kwargs()}, reset_only=True)
        return time.perf_counter() - start if timed else 0.0

    def _compiled(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], configs: Sequence[Any]
    ) -> Sequence[str]:
        """Compile the kernel with configs, see ``compile_apart``."""

        def launch(config: Any) -> None:
            current = {**kwargs, **config.all_kwargs(), "warmup": True}
            if config.pre_hook:  # it may change what is compiled, such as the block of a descriptor
                config.pre_hook({**self.nargs, **current})
            self.fn.run(*args, **current)

        launches = [partial(launch, config) for config in configs]
        return compile_apart(self._function, launches, self._compile_workers)

    def _timed(
        self, config: Any, platform: Platform, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[float], tuple[KernelResources, ...]]:
        """Milliseconds and resources of the kernel with a config, run as ``triton.autotune`` runs it."""
        if conflicts := kwargs.keys() & config.kwargs.keys():
            raise CostModelError(
                f"Tuned parameters must not be given, but got {', '.join(sorted(conflicts))}. Leave them "
                "out of the call."
            )
        if triton.knobs.autotuning.print:
            print(f"Autotuning kernel {self.base_fn.__name__} with config {config}")
        current = {**kwargs, **config.all_kwargs()}
        arguments = {**self.nargs, **current}
        checked, kernel = False, None

        def kernel_call() -> None:
            nonlocal checked, kernel
            if not checked:
                self._check_place(platform)
                checked = True
            if config.pre_hook:
                config.pre_hook(arguments)
            self.pre_hook(arguments)
            try:
                kernel = self.fn.run(*args, **current)
            except Exception as error:
                self.post_hook(arguments, exception=error)
                raise
            self.post_hook(arguments, exception=None)

        milliseconds = self.do_bench(kernel_call, quantiles=QUANTILES)
        return milliseconds, read_resources(kernel)

    def _check_timer(self) -> None:
        """Check that there is a timer: Triton's own is that of a GPU.

        Raises:
            CostModelError: There is none.
        """
        try:
            _ = self.do_bench
        except RuntimeError as error:  # Triton asks its driver for the timer
            raise CostModelError(
                f"A GPU, or a timer of yours, must time the configs of {self.base_fn.__name__}, but got none "
                f'({error}). Pass do_bench=, or mode="model", which times nothing.'
            ) from error

    def _check_place(self, platform: Platform) -> None:
        """Check that the timer runs kernels where the launch will: one may have a stream of its own.

        Raises:
            CostModelError: It does not.
        """
        where = self._find_platform()
        if where.name != platform.name:
            raise CostModelError(
                f"The timer must run the kernel on {platform.name}, as the call does, but runs it on "
                f"{where.name}. Use a do_bench that stays on the current stream, which use_cuda_graph does "
                "not."
            )

    def _tell(self, key: tuple[Any, ...], best: Any, tuning: Tuning, timed_s: float) -> None:
        """What Triton's own autotuner tells of an answer: attributes, a line, and a call of its listener."""
        self.configs_timings = tuning.timings_ms()
        self.bench_time = timed_s
        if triton.knobs.autotuning.print and timed_s:
            print(
                f"Triton autotuning for function {self.base_fn.__name__},\nwith key as {key},\n"
                f"finished after {timed_s:.2f}s,\nbest config selected: {best};"
            )
        listener = getattr(triton.knobs.autotuning, "listener", None)
        if listener is not None:
            listener(
                fn=self._function,
                key=key,
                best_config=best,
                configs_timings=self.configs_timings,
                duration=timed_s or None,
                cache_hit=not timed_s,
            )


def _known_again(value: Any) -> Any:
    """Return a value of the key, or what equals itself in its place: NaN does not, alone or in a tuple."""
    if isinstance(value, tuple):
        return tuple(map(_known_again, value))
    is_other = isinstance(value, Number) and value != value  # noqa: PLR0124 (what NaN alone is)
    return (type(value), str(value)) if is_other else value
