"""A program of somebody else that computes what a space's workload computes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from costmodel.errors import InvalidConfigError
from costmodel.kernels.metaschedule._choices import choices_of
from costmodel.kernels.metaschedule._sketch import Sketch
from costmodel.records._candidate import SKETCH, Config


def apply_postprocessors(schedule: Any, postprocs: Iterable[Any]) -> None:
    """Complete a schedule.

    Raises:
        InvalidConfigError: A postprocessor refuses it.
    """
    schedule.enter_postproc()
    for postproc in postprocs:
        if not postproc.apply(schedule):
            raise InvalidConfigError(f"Postprocessor {type(postproc).__name__} refuses the schedule.")


class SameOperator:
    """Schedules a program by configs of a space, whatever names the program gives to blocks and loops.

    Args:
        sketches: The sketches of the space.
        traces: Of the program, by position among the sketches, traces that sample what the sketch samples.
        context: MetaSchedule's context of the program. Postprocessors refer to it.
    """

    def __init__(self, sketches: Sequence[Sketch], traces: Mapping[int, Any], context: Any) -> None:
        self._sketches, self._context = sketches, context
        self._traces = {at: _aligned(trace, sketches[at]) for at, trace in traces.items()}

    def __bool__(self) -> bool:
        """Whether the program has any of the sketches."""
        return bool(self._traces)

    def schedule(self, config: Config) -> Any:
        """The ``tvm.s_tir.Schedule`` of the program that makes the choices of ``config``, postprocessed.

        Raises:
            InvalidConfigError: The program has no such sketch, or no valid kernel comes of it.
        """
        position = config.decisions[SKETCH]
        if not isinstance(position, int) or position not in self._traces:
            raise InvalidConfigError(
                f"{SKETCH} must be one that the program has, of {sorted(self._traces)}, but got {position}."
            )
        trace = self._traces[position]
        try:
            schedule = self._sketches[position].apply_by(trace, config.decisions, self._context.mod)
        except Exception as error:  # noqa: BLE001 (TVM raises its own error types for decisions that do not fit)
            raise InvalidConfigError(f"The schedule cannot be applied: {error}") from None
        apply_postprocessors(schedule, self._context.space_generator.postprocs)
        return schedule


def _aligned(trace: Any, sketch: Sketch) -> Any:
    """The trace, simplified if it samples what nothing uses, so that its samples begin as the sketch's."""
    return trace if choices_of(trace).begin_as(sketch.choices) else trace.simplified(remove_postproc=True)
