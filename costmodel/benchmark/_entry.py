"""The contract of an entry, and entries by name: those here, and every registered learner."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cache
from importlib import import_module

from costmodel.benchmark._question import BenchQuestion
from costmodel.errors import CostModelError, did_you_mean
from costmodel.learners._base import Prediction
from costmodel.learners._registry import learner_names

# Modules of this package that hold entries in a tuple ``ENTRIES``, in the order of the table.
_MODULES = (
    "references", "rules", "habitat", "products", "wavetune", "trees", "gptune", "neusight", "diode", "ours",
)  # fmt: skip


class BenchEntry(ABC):
    """Answers questions.

    Attributes:
        name: Name of the entry.
        made_by: Whose it is: ``reference``, ``rule``, ``others`` for what others published, ``costmodel`` or
            ``yours``.
        about: What it does, in a sentence with its source.
        seeds: How many runs of it are judged, which differ by seed; 1 if no chance enters.
        is_extra: Whether it needs what not every installation has, and so takes part only if it is named: the
            sheet of all entries is the same everywhere.
    """

    name: str
    made_by: str = "others"
    about: str = ""
    seeds: int = 1
    is_extra: bool = False

    def can_answer(self, question: BenchQuestion) -> bool:
        """Return whether it has anything to say; by default, to every question."""
        return True

    @abstractmethod
    def answer(self, question: BenchQuestion, seed: int = 0) -> Prediction:
        """Score the asked rows, ``(a,)`` in the order of ``question.asked``; seconds and ends are optional.

        Args:
            question: What is known, and what is asked.
            seed: Seed of all random choices.
        """


def check_interval(where: str, answer: Prediction) -> None:
    """Check that the ends of intervals are both told, and in order.

    Raises:
        CostModelError: One is not, or they are not.
    """
    low_s, high_s = answer.low_s, answer.high_s
    if (low_s is None) != (high_s is None):
        raise CostModelError(f"{where}: low_s and high_s must be given together, but one is missing.")
    if low_s is not None and high_s is not None and (wrong := int((low_s > high_s).sum())):
        raise CostModelError(
            f"{where}: low_s must not be above high_s, but is in {wrong} of {low_s.size} rows."
        )


@cache
def shipped_entries() -> dict[str, BenchEntry]:
    """Return the entries of this package by name, in the order of the table, extra ones too."""
    return {entry.name: entry for entry in _shipped()}


def open_entry(name: str) -> BenchEntry:
    """Return an entry of this package, or a registered learner as an entry.

    Raises:
        CostModelError: There is neither.
    """
    entries = shipped_entries()
    if name in entries:
        return entries[name]
    learner = name.partition("+")[0]
    if learner in learner_names():
        from costmodel.benchmark.entries._learner import LearnerEntry

        return LearnerEntry(name, name, made_by="yours")
    raise CostModelError(
        f"An entry must be one of {', '.join(entries)}, a learner, or a file, but got {name!r}."
        + did_you_mean(name, [*entries, *learner_names()])
    )


def _shipped() -> Iterator[BenchEntry]:
    for module in _MODULES:
        yield from import_module(f"costmodel.benchmark.entries._{module}").ENTRIES
