"""What an experiment logs, and MLflow, which stores it.

A command makes a result. A generator next to that result yields items to log, and one loop writes them to a
``Tracker``. Nothing is sent anywhere except to the place that was named.
"""

from costmodel.tracking._base import DatasetRead, RunRecord, RunStatus, Tracker
from costmodel.tracking._config import describe_config
from costmodel.tracking._environment import describe_commit, describe_environment
from costmodel.tracking._folder import describe_folder
from costmodel.tracking._items import (
    Artifact,
    ChildRun,
    ColumnType,
    DatasetUsed,
    Item,
    Metric,
    ModelFile,
    Note,
    Parameter,
    Table,
    Tag,
    Value,
)
from costmodel.tracking._lifetime import mark_dead_runs
from costmodel.tracking._log import RunLog, TrackedRun, Untracked, tracked_run
from costmodel.tracking._mlflow import MlflowTracker
from costmodel.tracking._read import Comparison, Difference, compare_runs, find_run
from costmodel.tracking._uri import how_to_look, resolve_tracking_uri

__all__ = [
    "Artifact",
    "ChildRun",
    "ColumnType",
    "Comparison",
    "DatasetRead",
    "DatasetUsed",
    "Difference",
    "Item",
    "Metric",
    "MlflowTracker",
    "ModelFile",
    "Note",
    "Parameter",
    "RunLog",
    "RunRecord",
    "RunStatus",
    "Table",
    "Tag",
    "TrackedRun",
    "Tracker",
    "Untracked",
    "Value",
    "compare_runs",
    "describe_commit",
    "describe_config",
    "describe_environment",
    "describe_folder",
    "find_run",
    "how_to_look",
    "mark_dead_runs",
    "resolve_tracking_uri",
    "tracked_run",
]
