"""What is asked of a search: the SMs that its kernels must serve, what is known, and how it proceeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from costmodel.arguments import (
    check_budgets,
    check_kind,
    check_numbers,
    check_seed,
    check_share,
    check_texts,
    check_whole,
)
from costmodel.collector.runners._base import Runner
from costmodel.dataset.table._dataset import Dataset
from costmodel.dataset.table._read import DatasetLike
from costmodel.errors import CostModelError
from costmodel.reading import is_file
from costmodel.records._candidate import Candidate
from costmodel.records._platform import Platform
from costmodel.search._objective import Objective, ObjectiveName, SearchGoal
from costmodel.transfer.prediction._model import Model
from costmodel.tuning._knowledge import NOTHING


@dataclass(frozen=True)
class Goal:
    """What the chosen kernels must serve.

    Attributes:
        sms: SM budgets (threads on a CPU), in any order. Empty for the whole device or, with ``portfolio`` or
            ``free_sms``, for all that were recorded or some that a device grants.
        objective: How one kernel is chosen for several SM budgets, by its latency over the best at each:
            ``"worst-regret"``, ``"mean"`` (geometric) or ``"weighted"``. None for the worst regret.
        weights: Weight of each SM budget, in the order of ``sms``, for the objective ``"weighted"``.
        portfolio: Maximum number of kernels to choose, each with the range of SMs in which it should run.
            None for one kernel.
        free_sms: Find the fewest SMs on which latency is at most this share higher than on the whole device,
            such as 0.04.

    Raises:
        CostModelError: Values contradict each other, or one is out of range.

    Example:
        >>> Goal((16, 32, 132), portfolio=2).is_for_several
        True
    """

    sms: tuple[int, ...] = ()
    objective: str | None = None
    weights: tuple[float, ...] = ()
    portfolio: int | None = None
    free_sms: float | None = None

    def __post_init__(self) -> None:
        """Check everything that needs no device or file."""
        object.__setattr__(self, "sms", check_budgets(self.sms))
        object.__setattr__(self, "weights", check_numbers("weights", self.weights))
        check_texts("objective", self.objective)
        if self.portfolio is not None:
            check_whole("portfolio", self.portfolio, 1)
        if self.free_sms is not None:
            check_share("free_sms", self.free_sms)
        for name in ("objective", "weights"):
            if getattr(self, name) and not self.is_for_several:
                raise CostModelError(
                    f"An objective and weights must be for several SM budgets, such as 16,32,132, but got "
                    f"{name} {getattr(self, name)} for one."
                )

    @classmethod
    def of(cls, sms: "int | Sequence[int] | Goal | None") -> "Goal":
        """Make a goal of what ``tune`` takes as ``sms``: a number, several, a goal, or None."""
        return sms if isinstance(sms, Goal) else cls(check_budgets(sms))

    @property
    def is_for_several(self) -> bool:
        """Whether the goal covers several SM budgets."""
        return len(self.sms) > 1 or self.portfolio is not None or self.free_sms is not None

    @property
    def title(self) -> str:
        """Short description, to follow the name of a workload."""
        if self.sms:
            return f"on {', '.join(map(str, self.sms))} SMs"
        return f"on {'several SM budgets' if self.is_for_several else 'the whole device'}"

    @property
    def kind(self) -> SearchGoal:
        """Whether to search for one kernel or a portfolio."""
        one = self.portfolio is None and self.free_sms is None
        return SearchGoal.ONE_KERNEL if one else SearchGoal.PORTFOLIO

    def max_kernels(self, budgets: int) -> int:
        """Return the maximum number of kernels for this number of SM budgets."""
        if self.portfolio is not None:
            return self.portfolio
        return 1 if self.free_sms is None else budgets

    def platforms(self, runner: Runner) -> tuple[Platform, ...]:
        """Return one platform per SM budget, sorted by granted SMs, with the whole device for ``free_sms``.

        Raises:
            CostModelError: An SM budget cannot be granted.
        """
        asked: tuple[int | None, ...] = self.sms
        if not asked:
            asked = runner.budgets if self.is_for_several else (None,)
        found = [runner.platform(sms) for sms in asked]
        if self.free_sms is not None:
            found.append(runner.platform())
        return tuple(platform for _, platform in sorted({p.sms_granted: p for p in found}.items()))

    def objective_for(self, platforms: tuple[Platform, ...]) -> Objective:
        """Make the objective, with weights in the order of the platforms.

        Raises:
            CostModelError: The objective is unknown, or the weights do not match the SM budgets.
        """
        weights = self.weights
        if len(weights) == len(self.sms):
            weights = tuple(weight for _, weight in sorted(zip(self.sms, weights, strict=True)))
        return Objective.make(self.objective or ObjectiveName.WORST_REGRET, len(platforms), weights or None)


@dataclass(frozen=True)
class SearchSettings:
    """How a search proceeds; the defaults are those of ``tune`` and of the command line.

    Attributes:
        screened: Number of configs to score at a time, without building any. A replay scores all its configs.
        stop_gain: Stop when the expected gain of the next measurement is below this share of the best
            latency, such as 0.01. None for no such limit.
        study: File or URL in which to keep the search and from which to resume it (see
            ``costmodel.search.open_study``). None to keep it in memory.
        study_name: Prefix of the study names. Searches with the same name, space and goal share a study.
        shares_study: Whether other processes may search in the study meanwhile. One that they do not is
            worked on in memory, and each trial is written when it is finished.
        seed: Seed of all random choices.
        compiled_per_trial: Number of candidates to compile for each one that is measured, where a model of
            compiled kernels is known (see ``Prior``): it chooses which of them are measured, from another
            shortlist after every 16 measurements. 1 to compile only what is measured. None for as many as
            the build processes make of all trials at once, 4 at most: 16 processes compile 4 for each of 4
            trials, and none beforehand for 16 trials.
        measure_curves: On a device, also measure the chosen kernel at other SM budgets, and search the whole
            device for the kernel to compare it with. A replay has both without this option.

    Raises:
        CostModelError: A value is out of range.
    """

    screened: int = 50_000
    stop_gain: float | None = None
    study: str | None = None
    study_name: str = "tune"
    shares_study: bool = True
    seed: int = 0
    compiled_per_trial: int | None = None
    measure_curves: bool = False

    def __post_init__(self) -> None:
        """Check everything that needs no file."""
        check_seed(self.seed)
        check_whole("screened", self.screened, 1)
        if self.compiled_per_trial is not None:
            check_whole("compiled_per_trial", self.compiled_per_trial, 1)
        if self.stop_gain is not None:
            check_share("stop_gain", self.stop_gain)


@dataclass(frozen=True)
class Prior:
    """What a search knows at its start, before the defaults are filled in.

    Attributes:
        model: Trained model, or its file, to use instead of learning from a history.
        learn_from: The history: a dataset, its name or path, or ``"nothing"``. None, in a replay, for the
            replayed dataset; on a GPU, for the shipped dataset of the kernels' family, or its model from
            ``pretrain`` if the dataset has no measurements of the workload itself; on a CPU, for nothing.
        start_from: On a device, the dataset whose fastest kernels of this workload on that device are
            measured first. None for the history.
        learner: Name of the learner (see ``costmodel.transfer.make_model``). None for ``kernel-ridge`` for
            MetaSchedule's kernels, ``stack`` for other sources, ``stack-above-analytic`` for families whose
            speed depends on their data, and ``source-mixture`` for kernels of another suite, of which only
            their latencies elsewhere are known. If the history has kernels of this workload on other SMs or
            devices, ``known-elsewhere``; for sources other than MetaSchedule, only if it has at least half of
            them.
        keep_twins_apart: In a replay, also learn this workload from near-twins of the device.
        compiled: Trained model, or its file, that reads what a compiler made of kernels, and chooses among
            those that were compiled, where these are more than are measured (see ``SearchSettings``). It is
            used on devices of the architectures that it learned from. None for that of ``pretrain``, on a GPU
            and for workloads that were not measured.
        first: Kernels to measure before what is proposed, such as the best on another device; not again where
            the study has them, nor what is of no space that is searched.

    Raises:
        CostModelError: Both a model and a history are given, or ``first`` holds what is no kernel.
    """

    model: Model | Path | str | None = None
    learn_from: DatasetLike | None = None
    start_from: DatasetLike | None = None
    learner: str | None = None
    keep_twins_apart: bool = False
    compiled: Model | Path | str | None = None
    first: tuple[Candidate, ...] = ()

    def __post_init__(self) -> None:
        """Check that knowledge comes from one place, and kernels are some."""
        check_kind(
            "first", self.first, tuple | list, "a tuple of candidates, such as (result.best.candidate,)"
        )
        for each in self.first:
            check_kind("first", each, Candidate, "candidates, such as (result.best.candidate,)")
        if self.model is not None and self.learn_from is not None:
            raise CostModelError("A model or a history must be given, but got both. Leave one of them out.")

    @classmethod
    def of(cls, prior: "Prior | Model | DatasetLike | None") -> "Prior":
        """Make a prior of what ``tune`` takes: ``"default"``, a model or its file, a dataset, or None.

        None knows nothing. A path of a file is a model, any other text a dataset.
        """
        if isinstance(prior, Prior):
            return prior
        if prior is None:
            return cls(learn_from=NOTHING)
        if isinstance(prior, str) and prior == "default":
            return cls()
        if isinstance(prior, Model) or (isinstance(prior, Path | str) and is_file(prior)):
            return cls(model=prior)
        if isinstance(prior, Dataset | Path | str):
            return cls(learn_from=prior)
        raise CostModelError(
            f"A prior must be a model or its file, a dataset, a Prior, 'default' or None, but got {prior!r}."
        )
