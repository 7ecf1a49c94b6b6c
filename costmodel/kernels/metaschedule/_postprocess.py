"""Postprocessors: what MetaSchedule does to every schedule before it is a kernel."""

from collections.abc import Iterable
from typing import Any

from costmodel.errors import InvalidConfigError


def apply_postprocessors(schedule: Any, postprocs: Iterable[Any]) -> None:
    """Complete a schedule.

    Raises:
        InvalidConfigError: A postprocessor refuses it.
    """
    schedule.enter_postproc()
    for postproc in postprocs:
        if not postproc.apply(schedule):
            raise InvalidConfigError(f"Postprocessor {type(postproc).__name__} refuses the schedule.")
