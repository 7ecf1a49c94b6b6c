"""A table of kernels on parts of one device, the best first."""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from costmodel.records._candidate import Candidate
from costmodel.records._platform import Platform
from costmodel.transfer.prediction._notes import notes_on

if TYPE_CHECKING:
    from costmodel.transfer.prediction._model import Model


class RankedKernels(pd.DataFrame):
    """A frame whose column ``rank_score`` answers to ``score``, as it was called before 0.4, until 0.5."""

    @property
    def _constructor(self) -> type["RankedKernels"]:
        return RankedKernels

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str) and key == "score" and "score" not in self.columns:
            message = 'The column "score" of a ranking is now called "rank_score".'
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            key = "rank_score"
        return super().__getitem__(key)


def ranked_kernels(
    model: "Model", candidates: Sequence[Candidate], refused: Sequence[str], platforms: Sequence[Platform]
) -> RankedKernels:
    """Return what ``Model.predict`` does.

    Args:
        model: The model.
        candidates: The kernels.
        refused: Why each cannot run there; empty for one that can, at least one.
        platforms: Parts of one device.
    """
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
        ranked.append(table.sort_values("rank_score", ascending=False, kind="stable"))
    every = RankedKernels(pd.concat(ranked, ignore_index=True).dropna(axis="columns", how="all"))
    every.attrs["platforms"] = [platform.name for platform in platforms]
    return every if every["note"].any() else every.drop(columns="note")
