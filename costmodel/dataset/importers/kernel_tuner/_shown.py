"""What an entry of a Kernel Tuner cache shows of the records behind it.

Source: the cache schema 1.1.0 of Kernel Tuner (https://github.com/KernelTuner/kernel_tuner,
``kernel_tuner/schema/cache/1.1.0/schema.json``), which allows more fields than it names.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from costmodel.dataset.importers._exported import milliseconds
from costmodel.dataset.importers.kernel_tuner._entry import FAILURES
from costmodel.records._candidate import Config, Decision
from costmodel.records._measurement import Measurement, Outcome

_NOT_CHOSEN = "-"  # what a config shows of a parameter that its sketch has not
_SHOWN_FAILURES = {outcome: name for name, outcome in FAILURES.items()}
_SHOWN_FAILURES |= dict.fromkeys(
    (Outcome.TIMEOUT, Outcome.WRONG_RESULT), _SHOWN_FAILURES[Outcome.LAUNCH_ERROR]
)
# The schema wants them, and our records do not have them.
_UNKNOWN_TIMES = dict.fromkeys(
    ("compile_time", "verification_time", "benchmark_time", "strategy_time", "framework_time"), 0.0
)


def show_config(names: Sequence[str], config: Config) -> dict[str, int | float | str]:
    """The value of each parameter; factors of a tile as in ``4x1x16``."""
    return {name: _show(config.decisions.get(name, _NOT_CHOSEN)) for name in names}


def show_key(names: Sequence[str], config: Config) -> str:
    """The key of a config in a cache."""
    return ",".join(map(str, show_config(names, config).values()))


def show_entry(names: Sequence[str], records: Sequence[Measurement]) -> dict[str, Any]:
    """The entry of these records of one config: it shows the first.

    A parameter that has the name of a field, such as ``time``, is not shown: Kernel Tuner cannot have it.

    Args:
        names: The cache's ``tune_params_keys``.
        records: The first is shown, in milliseconds; a failure by the nearest that Kernel Tuner knows.
    """
    first = records[0]
    times = milliseconds(first.latencies_s)
    return {
        **show_config(names, first.candidate.config),
        "time": fmean(times) if times else _SHOWN_FAILURES[first.outcome],
        "times": times,
        **_UNKNOWN_TIMES,
        "timestamp": first.measured_at,
    }


def _show(value: Decision) -> int | float | str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else value
