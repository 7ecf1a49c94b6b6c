"""What a tracked run keeps of training."""

from collections.abc import Iterator
from functools import partial

from costmodel.evaluation.pictures._draw import plot_held_out
from costmodel.tracking._items import Artifact, Item, Metric, Note, Table, Tag
from costmodel.transfer.prediction._model import Model


def describe_training(model: Model) -> Iterator[Item]:
    """What a model learned from, how good it is on what was held out, and those results by task."""
    about, tasks = model.metadata, model.held_out_tasks
    devices = ", ".join(device.name for device in about.devices)
    yield Note(
        f"Learned from {about.rows:,} measurements of {len(about.workloads)} workloads ({about.tasks} tasks) "
        f"on {devices}; judged by {0 if tasks is None else len(tasks)} tasks held out. "
        "`mlflow.pyfunc.load_model` loads the model; `costmodel.transfer.kernel_frame` makes what it "
        "predicts from."
    )
    yield Metric("learned/measurements", about.rows)
    yield Metric("learned/tasks", about.tasks)
    yield Metric("learned/workloads", len(about.workloads))
    yield from (Metric(name, value) for name, value in about.metrics.items())
    yield Tag("devices", devices)
    yield Tag("headline", "score_at_1")
    yield Artifact.of_text("columns.txt", "\n".join(about.columns) + "\n")
    if tasks is not None:
        yield Table("tables/tasks.csv", tasks)
        yield Artifact("plots/held_out.png", partial(plot_held_out, tasks))
