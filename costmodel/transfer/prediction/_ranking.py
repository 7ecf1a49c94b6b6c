"""A table of kernels on parts of one device, the best first."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from costmodel.records._candidate import Candidate
from costmodel.records._platform import Platform
from costmodel.transfer.prediction._notes import notes_on

if TYPE_CHECKING:
    import pandas as pd

    from costmodel.transfer.prediction._model import Model


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

    kernels = pd.DataFrame(
        {
            "candidate_id": [candidate.candidate_id for candidate in candidates],
            "config": [candidate.config.decisions for candidate in candidates],
        }
    )
    reasons = pd.Series(list(refused))
    runs = [i for i, reason in enumerate(refused) if not reason]
    of_rows = [candidates[i] for _ in platforms for i in runs]
    at_rows = [platform for platform in platforms for _ in runs]
    found = model.predictions_of(of_rows, at_rows)
    told = {**found, "note": np.array(notes_on(model, of_rows, at_rows, found), dtype=object)}
    ranked = []
    for place, platform in enumerate(platforms):
        at = slice(place * len(runs), (place + 1) * len(runs))
        predicted = pd.DataFrame({name: values[at] for name, values in told.items()}, index=runs)
        table = pd.concat([kernels, predicted.reindex(kernels.index)], axis=1)
        table["note"] = table["note"].fillna(reasons)
        table.insert(0, "sms", platform.sms_granted)
        ranked.append(table.sort_values("score", ascending=False, kind="stable"))
    every = pd.concat(ranked, ignore_index=True).dropna(axis="columns", how="all")
    every.attrs["platforms"] = [platform.name for platform in platforms]
    return every if every["note"].any() else every.drop(columns="note")
