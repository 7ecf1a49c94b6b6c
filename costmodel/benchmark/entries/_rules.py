"""Rules that need no training, or hardly any: bounds, counts of waves, means over sources."""

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.benchmark._entry import BenchEntry
from costmodel.benchmark._question import BenchQuestion
from costmodel.benchmark.entries._learner import LearnerEntry, has_bound
from costmodel.learners._base import Prediction


class Roofline(BenchEntry):
    """The time of the one resource that a kernel needs longest."""

    name, made_by = "roofline", "rule"
    about = (
        "The longest of a kernel's times for arithmetic, shared memory, L2 and DRAM (Williams, Waterman and "
        "Patterson, CACM 52(4), 2009); nothing is learned."
    )

    def can_answer(self, question: BenchQuestion) -> bool:
        """Only where resources are known."""
        return has_bound(question)

    def answer(self, question: BenchQuestion, seed: int = 0) -> Prediction:
        """The bound, in seconds."""
        log2_s = asked_bound(question)
        return Prediction(-log2_s, np.exp2(log2_s))


class WaveQuantisation(BenchEntry):
    """The roofline of the work over the share of the last wave that is used."""

    name, made_by = "wave-quantisation", "rule"
    about = (
        "The roofline of the operator x ceil(waves) / waves, and x the padding of tiles (NVIDIA, Matrix "
        "Multiplication Background User's Guide; Osama et al., Stream-K, PPoPP 2023)."
    )

    def can_answer(self, question: BenchQuestion) -> bool:
        """Only where waves are known."""
        return has_bound(question)

    def answer(self, question: BenchQuestion, seed: int = 0) -> Prediction:
        """In seconds, if those of the roofline are known; what has no launch fills all of its waves."""
        waves, filled = (
            asked_column(question, name, 0.0) for name in ("log2_waves", "log2_fractional_waves")
        )
        log2_s = np.maximum(0.0, waves - filled) + asked_column(question, "log2_extra_flops", 0.0)
        roofline = question.column("log2_roofline_s")[question.asked]
        if np.isnan(roofline).any():
            return Prediction(-log2_s)
        return Prediction(-log2_s, np.exp2(roofline + log2_s))


def asked_bound(question: BenchQuestion) -> FloatArray:
    """Return ``(a,)`` log2 of the seconds of the resource that each asked kernel needs longest.

    It is that of what was read of the kernel, or of its operator and launch.
    """
    parts = [each.name for each in question.columns if "component_time" in each.tags]
    times = np.max([asked_column(question, name, 0.0) for name in parts], axis=0)
    decided = question.column("log2_roofline_s")[question.asked] + times
    read = question.column("ir/log2_longest_s")[question.asked]
    bound = np.where(np.isnan(decided), read, decided)
    return np.where(np.isnan(bound), np.nanmax(bound), bound)


def asked_column(question: BenchQuestion, name: str, unknown: float) -> FloatArray:
    """Return ``(a,)`` a feature of the asked rows, with another number where it is not known."""
    values = question.column(name)[question.asked]
    return np.where(np.isnan(values), unknown, values)


ENTRIES = (
    Roofline(),
    WaveQuantisation(),
    LearnerEntry(
        "mean-over-sources",
        "consensus",
        without=("ir", "compiled"),
        made_by="rule",
        about="The mean of a config's log scores over the known tasks, near ones more (learner `consensus`).",
    ),
    LearnerEntry(
        "nearest-source",
        "nearest-task",
        without=("ir", "compiled"),
        made_by="rule",
        about="What the most similar known task says of the nearest configs (learner `nearest-task`).",
    ),
)
