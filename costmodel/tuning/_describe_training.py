"""What a tracked run keeps of training."""

from collections.abc import Iterator
from functools import partial

from costmodel.evaluation import plot_held_out
from costmodel.tracking import Artifact, Item, Metric, Note, Table, Tag
from costmodel.tuning._training import Trained


def describe_training(trained: Trained) -> Iterator[Item]:
    """What was learned from, how good it is on what was held out, and those results by task."""
    yield Note(
        f"Learned from {trained.rows:,} measurements of {len(trained.workloads)} workloads "
        f"({trained.tasks} tasks) on {', '.join(trained.devices)}; judged by "
        f"{len(trained.held_out_tasks)} tasks held out. `mlflow.pyfunc.load_model` loads the model; "
        "`costmodel.transfer.kernel_frame` makes what it predicts from."
    )
    yield Metric("learned/measurements", trained.rows)
    yield Metric("learned/tasks", trained.tasks)
    yield Metric("learned/workloads", len(trained.workloads))
    yield from (Metric(name, value) for name, value in trained.metrics().items())
    yield Tag("devices", ", ".join(trained.devices))
    yield Tag("headline", "score_at_1")
    yield Table("tables/tasks.csv", trained.held_out_tasks)
    yield Artifact.of_text("columns.txt", "\n".join(trained.columns) + "\n")
    if len(trained.held_out_tasks):
        yield Artifact("plots/held_out.png", partial(plot_held_out, trained.held_out_tasks))
