"""A table of kernels on parts of one device, the best first."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from costmodel.records import Candidate, Platform

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
    found = model.predictions_of(
        [candidates[i] for _ in platforms for i in runs], [platform for platform in platforms for _ in runs]
    )
    for place, platform in enumerate(platforms):
        at = slice(place * len(runs), (place + 1) * len(runs))
        predicted = pd.DataFrame({name: values[at] for name, values in found.items()}, index=runs)
        table = pd.concat([kernels, predicted.reindex(kernels.index), notes], axis=1)
        table.insert(0, "sms", platform.sms_granted)
        ranked.append(table.sort_values("score", ascending=False, kind="stable"))
    every = pd.concat(ranked, ignore_index=True).dropna(axis="columns", how="all")
    every.attrs["platforms"] = [platform.name for platform in platforms]
    return every if notes.any() else every.drop(columns="note")
