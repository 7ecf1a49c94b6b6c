"""Configuration of an evaluation, from a TOML file and command-line options."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_type_hints

import msgspec
from msgspec import Meta

from costmodel.arguments import MOST_SEED
from costmodel.errors import CostModelError
from costmodel.evaluation._judge import RANDOM, FewShot
from costmodel.evaluation._sides import SharedTasks
from costmodel.features._extract import COLUMNS
from costmodel.files import find_config
from costmodel.reading import read_toml
from costmodel.transfer._make import make_model

# Those that are of use with any split, without torch, in minutes. A random learner is drawn by the report
# itself, as an exact expectation.
COMPARED = (
    "nearest-task",
    "consensus",
    "ridge",
    "ridge-on-sources",
    "analytic",
    "kernel-ridge",
    "random-forest",
    "xgboost",
    "xgboost-rank",
    "stack",
)

# What may stand at a key, as error messages say it.
_Dataset = Annotated[str | None, Meta(description="the name or the path of a dataset")]
_Datasets = Annotated[tuple[str, ...], Meta(description="a list of names or paths of datasets")]
_Shared = Annotated[SharedTasks, Meta(description="refuse, drop or keep")]
_Name = Annotated[str, Meta(description="a name")]
_Names = Annotated[tuple[str, ...], Meta(min_length=1, description="a list of names of learners")]
_AnyName = Annotated[str | None, Meta(description="the name of one of the learners")]
_Count = Annotated[int, Meta(ge=0, description="a whole number of at least 0")]
_Seed = Annotated[int, Meta(ge=0, le=MOST_SEED, description=f"a whole number from 0 to {MOST_SEED:,}")]
_Positive = Annotated[int, Meta(ge=1, description="a whole number of at least 1")]
_AnyPositive = Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="a whole number of at least 1")]
_Flag = Annotated[bool, Meta(description="true or false")]
_Counts = Annotated[
    tuple[Annotated[int, Meta(ge=0)], ...], Meta(description="a list of numbers of at least 0, ascending")
]
_First = Annotated[Literal["own", "random"], Meta(description="own or random")]


class EvaluationConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Configuration of an evaluation. It is the only place of the defaults of ``costmodel evaluate``.

    Attributes:
        dataset: Dataset to split: the name of a shipped one, or a path from the working directory. Default:
            the shipped dataset.
        train: Datasets to learn from, instead of a split.
        test: The dataset to evaluate on. Requires ``train``.
        shared_tasks: What to do with tasks that ``train`` and ``test`` share.
        with_final_report: Whether ``train`` and ``test`` also use what they reserve for their final reports.
        split: A strategy, or the name of a split stored with the dataset.
        folds: Number of groups to hold out, one at a time; 0 holds out items one by one.
        keep_twins_apart: Whether near-twin devices are held out one at a time.
        learners: Names of the learners to compare.
        baseline: The learner with which the others are compared, task by task.
        seed: Seed of the learners and of random measurements.
        seeds: Number of runs of each learner that depends on a seed.
        shots: Numbers of measurements after which to evaluate; empty for none.
        first: Which configs are measured first: the top of the learner's ``own`` list, or ``random`` ones.
        tasks: Number of tasks to evaluate. Default: all.
    """

    dataset: _Dataset = None
    train: _Datasets = ()
    test: _Dataset = None
    shared_tasks: _Shared = "refuse"
    with_final_report: _Flag = False
    split: _Name = "leave-one-workload-out"
    folds: _Count = 0
    keep_twins_apart: _Flag = False
    learners: _Names = COMPARED
    baseline: _AnyName = None
    seed: _Seed = 0
    seeds: _Positive = 1
    shots: _Counts = ()
    first: _First = "own"
    tasks: _AnyPositive = None

    @classmethod
    def load(cls, file: Path | None, given: Mapping[str, Any] | None = None) -> Self:
        """Read a configuration from a file, overridden by given values.

        Args:
            file: TOML file; None for the defaults alone.
            given: Values by key that override the file, such as those of the command line.

        Raises:
            CostModelError: The file is missing or not TOML, a key is unknown, or a value has the wrong type,
                is invalid, or contradicts another.
        """
        read, given = _read(file) if file else {}, given or {}
        allowed = get_type_hints(cls, include_extras=True)
        values = {}
        for key, value in {**read, **given}.items():
            where = "" if key in given else f"{file}: "
            if key not in allowed:
                raise CostModelError(
                    f"{where}An evaluation must have keys among {', '.join(allowed)}, but got {key!r}."
                )
            values[key] = _checked(value, allowed[key], f"{where}{key}")
        config = cls(**values)
        for problem in config._problems():
            raise CostModelError(f"{file}: {problem}" if file else problem)
        return config

    @property
    def few_shot(self) -> FewShot | None:
        """Plan by which tested tasks are measured; None if they are not."""
        return FewShot(self.shots, self.first, self.seed) if self.shots else None

    @property
    def used_seeds(self) -> tuple[int, ...]:
        """The seed of each run."""
        return tuple(range(self.seed, self.seed + self.seeds))

    def _problems(self) -> Iterator[str]:
        """Yield what is wrong that the types cannot say."""
        try:
            for name in self.learners:
                make_model(name, COLUMNS)
            _ = self.few_shot
        except CostModelError as error:
            yield str(error)
        if self.baseline not in (None, RANDOM, *self.learners):
            among = ", ".join((RANDOM, *self.learners))
            yield f"The baseline must be among the learners, {among}, but got {self.baseline!r}."
        if self.with_final_report and not self.train:
            yield (
                "with_final_report must be given with train and test: within one dataset, the split "
                "final-report judges by what is reserved."
            )
        unsplit = self._parts == EvaluationConfig()._parts
        if (self.train or self.test) and not (self.train and self.test and unsplit):
            yield (
                "train and test must be given together, without a dataset, split, folds or "
                "keep_twins_apart: all of some datasets is learned from, and all of another is judged."
            )

    @property
    def _parts(self) -> tuple[Any, ...]:
        """Settings of the split of one dataset."""
        return self.dataset, self.split, self.folds, self.keep_twins_apart


def _read(file: Path) -> dict[str, Any]:
    what = "an evaluation in TOML"
    return read_toml(find_config(file), dict[str, Any], what, remedy="See configs/ for examples.")


def _checked(value: Any, hint: Any, where: str) -> Any:
    """The value as its type, or an error that says what is allowed."""
    try:
        return msgspec.convert(_plain(value), hint)
    except (msgspec.ValidationError, UnicodeError):
        said = next(meta.description for meta in hint.__metadata__ if meta.description)
        raise CostModelError(f"{where} must be {said}, but got {value!r}.") from None


def _plain(value: Any) -> Any:
    """Paths as text, alone or in a list."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value
