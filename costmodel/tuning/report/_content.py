"""Everything that a search found, as a page and as plain values."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from costmodel.search._objective import FreeSms, ObjectiveName
from costmodel.search._result import SearchResult
from costmodel.tuning.report._answer import answer
from costmodel.tuning.report._figures import PredictedPoints, ProgressCurve
from costmodel.tuning.report._findings import Findings
from costmodel.tuning.report._page import SearchReport
from costmodel.tuning.report._tables import kernels_table, trials_table

_REGRETS = {
    ObjectiveName.WORST_REGRET: "worst regret",
    ObjectiveName.MEAN: "mean regret",
    ObjectiveName.WEIGHTED: "weighted mean regret",
}


def page_of(found: Findings) -> SearchReport:
    """Everything for a page."""
    search = found.search
    several = len(search.sms) > 1
    return SearchReport(
        title=found.title,
        answer=answer(found),
        tables=[*([kernels_table(found)] if several else []), trials_table(found)],
        curves=found.curves,
        sms=search.sms,
        unit=found.unit,
        progress=_regret_so_far(found) if several else _best_so_far(search),
        predictions=list(_predictions(search)),
        provenance=search.provenance,
    )


def values_of(found: Findings) -> dict[str, Any]:
    """Everything, by name: chosen kernels, trials in the order of measurement, curves, provenance.

    ``best`` is the one kernel to run; None where several share the budgets.
    """
    search = found.search
    return {
        "workload": found.workload.name,
        "platforms": search.platforms,
        "objective": search.objective,
        "best": search.trials[found.ranges[0].kernel] if len(found.ranges) == 1 else None,
        "chosen": found.dispatch_table.ranges,
        "regret": dict(zip(search.sms, search.regret_of(found.ranges).tolist(), strict=True)),
        "free_sms": found.free and _free(search, found.free),
        "trials": search.trials,
        "latency_s_by_sms": {curve.label: curve.latency_s for curve in found.curves},
        "drifts": search.drifts,
        "service": found.service,
        "provenance": search.provenance,
    }


def _best_so_far(search: SearchResult) -> ProgressCurve:
    """Latency at the only budget, of each trial and of the best."""
    measured = search.latency_s[:, 0]
    return ProgressCurve(1e6 * measured, 1e6 * np.minimum.accumulate(measured), "latency (µs)")


def _regret_so_far(found: Findings) -> ProgressCurve:
    """Regret of the best choice from the trials so far."""
    kernels = "one kernel" if found.most == 1 else f"at most {found.most} kernels"
    label = f"{_REGRETS[found.search.objective.name]} of {kernels} (%)"
    return ProgressCurve(np.empty(0), 100.0 * found.search.progress(found.most), label)


def _predictions(search: SearchResult) -> Iterator[PredictedPoints]:
    """Predicted against measured latency, by budget."""
    told = [trial for trial in search.trials if trial.predicted_latency_s is not None]
    predicted = np.array([trial.predicted_latency_s for trial in told], dtype=np.float64)
    measured = np.array([trial.latency_s for trial in told], dtype=np.float64)
    for i, sms in enumerate(search.sms):
        if told and (ok := np.isfinite(measured[:, i])).any():
            yield PredictedPoints(sms, predicted[ok, i], measured[ok, i])


def _free(search: SearchResult, free: FreeSms) -> dict[str, Any]:
    candidate = search.trials[free.kernel].candidate
    return {
        "sms": search.sms[free.budget],
        "freed": search.sms[-1] - search.sms[free.budget],
        "config_id": candidate.config.config_id,
        "config": candidate.config,
        "latency_s": float(search.latency_s[free.kernel, free.budget]),
        "cost": free.cost,
    }
