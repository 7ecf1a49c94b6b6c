"""What a trace chooses, whatever its blocks are called.

The same operator written by somebody else (as Relax legalises it, say) has other names of blocks and loops,
and other instructions that find and inline them, but MetaSchedule samples the same things in the same order.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from costmodel.errors import InvalidConfigError
from costmodel.records._candidate import SKETCH, Config

if TYPE_CHECKING:
    from costmodel.kernels.metaschedule._sketch import Sketch


# Annotations with the same value in all traces of a sketch, which tell it from others that sample the same.
_TELLING = ("software_pipeline_stage", "meta_schedule.auto_tensorize")

# Instructions that only find blocks, make them disappear or note something: what they are depends on names,
# and on the steps in which an epilogue is written.
_INCIDENTAL = frozenset(
    {"Annotate", "ComputeInline", "GetChildBlocks", "GetConsumers", "GetLoops", "GetProducers", "GetSBlock"}
    | {"ReverseComputeInline", "Unannotate"}
)
_PLACING = frozenset({"ComputeAt", "RFactor", "ReverseComputeAt"})

Sample = tuple[int, ...]
Step = tuple[str, int, int]


@dataclass(frozen=True)
class Choices:
    """What a trace samples.

    Attributes:
        samples: Of each sampling instruction the numbers that define it: parts and largest innermost factor
            of a tile, the choices of a categorical.
        notes: Values of the annotations that tell sketches apart.
        decisions: What was decided for each sample, as the trace has it.
        structure: Kind of each instruction that shapes the program and, of those that move a block into a
            loop or cut a reduction at one, which output of which ``Split`` that loop is; -1 for others.
    """

    samples: tuple[Sample, ...]
    notes: tuple[str, ...]
    decisions: tuple[Any, ...]
    structure: tuple[Step, ...]

    def begin_as(self, other: "Choices") -> bool:
        """Whether these are those of ``other``, and maybe more behind them.

        More is what a block has that the other program does not have, such as a step of an epilogue that
        cannot be inlined: it gets a kernel of its own.
        """
        return self.notes == other.notes and self.samples[: len(other.samples)] == other.samples

    def common_steps(self, other: "Choices") -> int:
        """How many steps both structures have in common at their beginning."""
        pairs = enumerate(zip(self.structure, other.structure, strict=False))
        shorter = min(len(self.structure), len(other.structure))
        return next((i for i, (own, others) in pairs if own != others), shorter)

    def same_as(self, other: "Choices") -> bool:
        """Whether both are of the same sketch."""
        return (self.samples, self.notes, self.structure) == (other.samples, other.notes, other.structure)


def choices_of(trace: Any) -> Choices:
    """Read a trace; what postprocessors added is left out. Takes a fraction of a millisecond."""
    samples, notes, decisions, structure = [], [], [], []
    chosen = trace.decisions
    loops: dict[Any, tuple[int, int]] = {}
    splits = 0
    for inst in trace.insts:
        kind = inst.kind.name
        if kind == "EnterPostproc":
            break
        if kind == "Annotate" and str(inst.attrs[0]) in _TELLING:
            notes.append(str(inst.inputs[1]))
        elif kind.startswith("Sample"):
            samples.append(_sample(kind, inst.attrs))
            decisions.append(chosen[inst])
        if kind == "Split":
            loops.update({loop: (splits, position) for position, loop in enumerate(inst.outputs)})
            splits += 1
        if kind not in _INCIDENTAL:
            used = [loops[one] for one in inst.inputs if one in loops] if kind in _PLACING else []
            place = used[0] if used else (-1, -1)
            structure.append((kind, *place))
    return Choices(tuple(samples), tuple(notes), tuple(decisions), tuple(structure))


def _sample(kind: str, attributes: Any) -> Sample:
    """The numbers that define a sampling instruction; none for one that picks a loop."""
    if kind == "SampleCategorical":
        return tuple(map(int, attributes[0]))
    return tuple(map(int, attributes))


def plain_json(value: Any) -> Any:
    """JSON values of what TVM gives as JSON, which holds numbers and containers of its own."""
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, str):
        return str(value)  # TVM's own texts are of another type
    if hasattr(value, "items"):
        return {str(name): plain_json(item) for name, item in value.items()}
    return value.value if hasattr(value, "value") else [plain_json(item) for item in value]


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

    def __init__(self, sketches: Sequence["Sketch"], traces: Mapping[int, Any], context: Any) -> None:
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


def _aligned(trace: Any, sketch: "Sketch") -> Any:
    """The trace, simplified if it samples what nothing uses, so that its samples begin as the sketch's."""
    return trace if choices_of(trace).begin_as(sketch.choices) else trace.simplified(remove_postproc=True)
