"""What a tracked run keeps of a search, and of a model."""

from collections.abc import Container, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from costmodel.search._provenance import Provenance
from costmodel.search._trial import Trial
from costmodel.tracking._items import Artifact, Item, Metric, ModelFile, Note, Table, Tag, tell_answer
from costmodel.transfer._store import ModelMetadata
from costmodel.transfer.prediction import pyfunc
from costmodel.tuning._figures import plot_curves, plot_predictions, plot_progress
from costmodel.tuning._findings import BEST_KNOWN, WHOLE_CHOICE, Findings
from costmodel.tuning._page import SearchReport, trials_frame, write_report

if TYPE_CHECKING:
    import pandas as pd


# Names of a metric, and the curve of another choice that the latency found is divided by.
_RATIOS = {"latency_over_best_known": BEST_KNOWN, "latency_over_whole_choice": WHOLE_CHOICE}


def describe_trial(trial: Trial) -> Iterator[Metric]:
    """What one trial measured; its step is its number, so that trials make a curve."""
    for sms, latency_s in zip(trial.sms, trial.latency_s, strict=True):
        yield Metric(f"trial/latency_us on {sms}", 1e6 * latency_s, trial.number)


def describe_search(found: Findings, told: Container[tuple[int, str]]) -> Iterator[Item]:
    """What a search found.

    Args:
        found: The search, and the kernels that were chosen.
        told: Number and candidate's id of each trial that was logged when it was measured.
    """
    search = found.search
    yield Metric("trials", len(search.trials))
    yield Metric("failed_trials", int(np.isinf(search.latency_s).any(axis=1).sum()))
    yield from _of_one(found) if len(search.sms) == 1 else _of_several(found)
    for trial in search.trials:
        if (trial.number, trial.candidate.candidate_id) not in told:
            yield from describe_trial(trial)
    yield Table("tables/trials.csv", trials_frame(search))
    yield Artifact("dispatch.json", found.dispatch_table.save)


def _of_one(found: Findings) -> Iterator[Item]:
    """The kernel for one SM budget, beside the choices that one would make without it."""
    search, (sms,) = found.search, found.search.sms
    best_s = search.best.latency_s[0]
    yield Metric("best_latency_us", 1e6 * best_s)
    for name, label in _RATIOS.items():
        yield Metric(name, best_s / found.others.get(label, {}).get(sms, np.nan))
    best_so_far = np.minimum.accumulate(search.latency_s[:, 0])
    for trial, latency_s in zip(search.trials, best_so_far, strict=True):
        yield Metric("trial/best_so_far_us", 1e6 * latency_s, trial.number)
    yield from tell_answer("best_latency_us", 1e6 * best_s)
    yield Tag("best_config_id", search.best.candidate.config.config_id)


def _of_several(found: Findings) -> Iterator[Item]:
    """The kernels for several SM budgets, beside the best measured at each."""
    search = found.search
    regret = search.regret_of(found.ranges)
    yield Metric("worst_regret", float(regret.max()))
    yield Metric("mean_regret", float(np.expm1(np.log1p(regret).mean())))
    yield Metric("kernels", len({part.kernel for part in found.ranges}))
    for part in found.ranges:
        for i in part.budgets:
            yield Metric("by_sms/latency_us", 1e6 * float(search.latency_s[part.kernel, i]), search.sms[i])
            yield Metric("by_sms/regret", float(regret[i]), search.sms[i])
    for trial, value in zip(search.trials, search.progress(len(found.ranges)), strict=True):
        yield Metric("trial/regret_so_far", value, trial.number)
    yield from tell_answer("worst_regret", float(regret.max()))


def describe_page(report: SearchReport) -> Iterator[Item]:
    """The answer in sentences, the pictures of a report and its page, and where the answer came from."""
    yield Note("\n\n".join(report.answer))
    yield from _provenance(report.provenance)
    if report.curves:
        figure = plot_curves(report.curves, unit=report.unit, sms=report.sms)
        yield _picture("plots/latency_by_sms.png", figure)
    yield _picture("plots/best_so_far.png", plot_progress(report.progress))
    if report.predictions:
        figure = plot_predictions(report.predictions, unit=report.unit)
        yield _picture("plots/predicted_and_measured.png", figure)
    yield Artifact("report.html", partial(write_report, report))


def _provenance(provenance: Provenance) -> Iterator[Tag]:
    yield Tag("measured_by", provenance.runner)
    yield Tag("space", provenance.space_id)
    yield Tag("screened", str(provenance.n_screened))
    yield from (Tag(f"knowledge.{name}", value) for name, value in provenance.knowledge.items())


def _picture(path: str, figure: Any) -> Artifact:
    def write(file: Path) -> None:
        figure.savefig(file, dpi=130)

    return Artifact(path, write)


# Of what a model file says of itself, that which is no list.
_SHORT = (str, int, float, dict)
# By what name a package is installed, where it is not the one that it is imported by.
_INSTALLED_AS = {"costmodel": "sm-costmodel", "sklearn": "scikit-learn"}


def describe_model(file: Path, metadata: ModelMetadata, example: "pd.DataFrame") -> Iterator[ModelFile]:
    """The model with its signature, as something that MLflow loads.

    Args:
        file: What ``Model.save`` wrote.
        metadata: What was saved with it.
        example: Rows that it predicts from, as of ``kernel_frame``.
    """
    versions = {name: of for name, of in metadata.versions.items() if name != "python"}
    about = msgspec.structs.asdict(metadata)
    yield ModelFile(
        file=file,
        loader=pyfunc.__name__,
        inputs=pyfunc.INPUTS,
        outputs=pyfunc.OUTPUTS,
        example=example,
        requirements=tuple(f"{_INSTALLED_AS.get(name, name)}=={of}" for name, of in versions.items()),
        metadata={name: value for name, value in about.items() if isinstance(value, _SHORT)},
    )
