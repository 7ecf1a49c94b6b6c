"""What commands that can be tracked share: their options, and the run that they write to."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from costmodel.cli._options import TRACKING
from costmodel.cli._output import print_line

if TYPE_CHECKING:
    from costmodel.search._trial import Trial
    from costmodel.tracking._mlflow import MlflowTracker
    from costmodel.tracking._run import RunLog

_OPTIONS = ("track", "tracking_uri", "experiment")

TrackOption = Annotated[
    bool,
    typer.Option(
        "--track",
        help="Also log settings, metrics, plots and the environment to MLflow.",
        rich_help_panel=TRACKING,
    ),
]
TrackingUriOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE_OR_URL",
        help="Where runs are stored: a server such as http://localhost:5000, a database URL, or an SQLite "
        "file that ends in .db. Default: COSTMODEL_TRACKING_URI, MLFLOW_TRACKING_URI or "
        "out/mlflow.db, in this order.",
        show_default=False,
        rich_help_panel=TRACKING,
    ),
]
ExperimentOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Name of the MLflow experiment to log to.",
        show_default="the command",
        rich_help_panel=TRACKING,
    ),
]


@dataclass(frozen=True)
class Tracking:
    """Whether and where a command is tracked.

    Attributes:
        wanted: Whether it is.
        uri: Where; None for the default.
        experiment: Name of the experiment.
    """

    wanted: bool
    uri: str | None
    experiment: str

    @classmethod
    def of(cls, context: typer.Context) -> Self:
        """As its options say; to say where is to ask for it."""
        track, uri, experiment = (context.params[name] for name in _OPTIONS)
        return cls(bool(track or uri or experiment), uri, experiment or str(context.info_name))

    @contextmanager
    def run(self, name: str, config: Mapping[str, Any]) -> Iterator["RunLog"]:
        """What the command logs to; nothing if it is not tracked.

        A run begins with where it runs and its settings, so that one that dies has them. Runs that died
        before without being marked so are marked now.

        Args:
            name: Of the run.
            config: Every option as it was resolved.

        Raises:
            CostModelError: Runs cannot be kept there.
        """
        from costmodel.tracking._describe import describe_config, describe_environment
        from costmodel.tracking._mlflow import MlflowTracker
        from costmodel.tracking._run import Untracked, mark_dead_runs, tracked_run
        from costmodel.tracking._uri import how_to_look

        if not self.wanted:
            yield Untracked()
            return
        tracker = MlflowTracker(self.uri)
        mark_dead_runs(tracker)
        with tracked_run(tracker, name, self.experiment) as run:
            run.log(describe_environment())
            run.log(describe_config(config))
            try:
                yield run
            except KeyboardInterrupt as interrupt:
                interrupt.add_note(
                    f"Run {run.run_id[:8]} of experiment {self.experiment} keeps what was logged."
                )
                raise
        look = how_to_look(tracker.uri, tracker.page(run.run_id))
        print_line(f"Tracked as run {run.run_id[:8]} of experiment {self.experiment}.")
        print_line(f"To look at it: {look}")


class TrialLog:
    """Logs the trials of a search while they are measured; of several sources those of the first.

    The numbers of the others are known when all of them were searched.

    Args:
        run: Where to.

    Attributes:
        told: Number and candidate's id of each trial that was logged.
    """

    def __init__(self, run: "RunLog") -> None:
        self._run = run
        self._source: str | None = None
        self.told: set[tuple[int, str]] = set()

    def add(self, trial: "Trial") -> None:
        """Log one."""
        from costmodel.tuning._describe import describe_trial

        self._source = self._source or trial.candidate.source
        if trial.candidate.source == self._source:
            self._run.log(describe_trial(trial))
            self.told.add((trial.number, trial.candidate.candidate_id))


def open_tracker(uri: str | None) -> "MlflowTracker":
    """What was tracked, after runs that died were marked so.

    Raises:
        CostModelError: There is nothing, or MLflow is not installed.
    """
    from costmodel.tracking._mlflow import MlflowTracker
    from costmodel.tracking._run import mark_dead_runs

    tracker = MlflowTracker.open_existing(uri)
    mark_dead_runs(tracker)
    return tracker


def options_of(context: typer.Context, **resolved: Any) -> dict[str, Any]:
    """Every option of the command that is called, by its name, but for those that say how it is tracked.

    Args:
        context: That of the command.
        resolved: Values of those that were left to the command.
    """
    return {name: value for name, value in context.params.items() if name not in _OPTIONS} | resolved
