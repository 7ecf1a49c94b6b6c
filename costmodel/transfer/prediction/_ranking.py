"""A table of kernels on parts of one device, the best first."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from costmodel.records import Candidate, Platform, part_of
from costmodel.transfer.prediction._monotone import Predictions, budget_grid, without_rises

if TYPE_CHECKING:
    import pandas as pd

    from costmodel.transfer.prediction._model import Model

NEVER_MEASURED = "never measured on this device"


def ranked_kernels(
    model: "Model", candidates: Sequence[Candidate], refused: Sequence[str], platforms: Sequence[Platform]
) -> "pd.DataFrame":
    """What ``Model.predict`` returns.

    Args:
        model: The model.
        candidates: The kernels.
        refused: Why each cannot run there; empty for one that can, at least one.
        platforms: Parts of one device.
    """
    import pandas as pd

    unmeasured = "" if model.has_measured(platforms[0].device) else NEVER_MEASURED
    kernels = pd.DataFrame(
        {
            "candidate_id": [candidate.candidate_id for candidate in candidates],
            "config": [candidate.config.decisions for candidate in candidates],
        }
    )
    notes = pd.Series([reason or unmeasured for reason in refused], name="note")
    runs = [i for i, reason in enumerate(refused) if not reason]
    ranked = []
    for platform, found in _predictions_on(model, [candidates[int(i)] for i in runs], platforms):
        predicted = pd.DataFrame(found, index=runs).reindex(kernels.index)
        table = pd.concat([kernels, predicted, notes], axis=1)
        table.insert(0, "sms", platform.sms_granted)
        ranked.append(table.sort_values("score", ascending=False, kind="stable"))
    every = pd.concat(ranked, ignore_index=True).dropna(axis="columns", how="all")
    every.attrs["platforms"] = [platform.name for platform in platforms]
    return every if notes.any() else every.drop(columns="note")


def _predictions_on(
    model: "Model", candidates: Sequence[Candidate], platforms: Sequence[Platform]
) -> list[tuple[Platform, Predictions]]:
    """What a model says of kernels on each of these parts of one device.

    On a device that it has no measurement of, latencies may not rise with SMs, see ``without_rises``.
    """
    device, asked = platforms[0].device, [platform.sms_granted for platform in platforms]
    unseen = not model.has_measured(device)
    found: dict[int, Predictions] = {}
    for sms in budget_grid(device, asked) if unseen else dict.fromkeys(asked):
        part = part_of(device, sms)
        found[sms] = model.predictions(model.features(candidates, [part] * len(candidates)))
    if unseen and "latency_s" in found[asked[0]]:
        found = without_rises(found)
    return [(platform, found[platform.sms_granted]) for platform in platforms]
