"""What a trace chooses, whatever its blocks are called.

The same operator written by somebody else (as Relax legalises it, say) has other names of blocks and loops,
and other instructions that find and inline them, but MetaSchedule samples the same things in the same order.
"""

from dataclasses import dataclass
from typing import Any

# Annotations with the same value in all traces of a sketch, which tell it from others that sample the same.
_TELLING = ("software_pipeline_stage", "meta_schedule.auto_tensorize")

Sample = tuple[int, ...]


@dataclass(frozen=True)
class Choices:
    """What a trace samples.

    Attributes:
        samples: Of each sampling instruction the numbers that define it: parts and largest innermost factor
            of a tile, the choices of a categorical.
        notes: Values of the annotations that tell sketches apart.
        decisions: What was decided for each sample, as the trace has it.
    """

    samples: tuple[Sample, ...]
    notes: tuple[str, ...]
    decisions: tuple[Any, ...]

    def begin_as(self, other: "Choices") -> bool:
        """Whether these are those of ``other``, and maybe more behind them.

        More is what a block has that the other program does not have, such as a step of an epilogue that
        cannot be inlined: it gets a kernel of its own.
        """
        return self.notes == other.notes and self.samples[: len(other.samples)] == other.samples


def choices_of(trace: Any) -> Choices:
    """Read a trace; what postprocessors added is left out. Takes 0.1 to 0.4 ms."""
    samples, notes, decisions = [], [], []
    chosen = trace.decisions
    for inst in trace.insts:
        kind = inst.kind.name
        if kind == "EnterPostproc":
            break
        if kind == "Annotate" and str(inst.attrs[0]) in _TELLING:
            notes.append(str(inst.inputs[1]))
        elif kind.startswith("Sample"):
            samples.append(_sample(kind, inst.attrs))
            decisions.append(chosen[inst])
    return Choices(tuple(samples), tuple(notes), tuple(decisions))


def _sample(kind: str, attributes: Any) -> Sample:
    """The numbers that define a sampling instruction; none for one that picks a loop."""
    if kind == "SampleCategorical":
        return tuple(map(int, attributes[0]))
    return tuple(map(int, attributes))
