"""The number of candidates that a search proposes at once."""

import math

# A batch is at most this share of all trials, so that half of them are chosen knowing others.
_BATCH_SHARE = 0.25


def batches_in_flight(in_flight: int, trials: int, batch: int | None = None) -> tuple[int, int]:
    """Candidates in a batch, and batches that are built or measured at once: one or two.

    Args:
        in_flight: Candidates that the runner works on at once.
        trials: Candidates to measure in all.
        batch: Candidates in a batch, where that is settled. Unless given, two batches keep the runner busy,
            as far as a quarter of all trials is not less.
    """
    size = batch or max(1, min(in_flight // 2, math.ceil(_BATCH_SHARE * trials)))
    return size, 2 if in_flight >= 2 * size else 1
