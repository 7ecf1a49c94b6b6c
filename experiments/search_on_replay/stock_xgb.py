"""The loop of TVM's stock tuner over a pool: an XGBModel that starts from nothing chooses batches."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from optuna import Study
from optuna.trial import FrozenTrial
from tvm.ir.utils import derived_object
from tvm.runtime import tensor
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.cost_model.xgb_model import XGBConfig, XGBModel

from costmodel.kernels import open_space
from costmodel.kernels.metaschedule._tvm_start import register_tensor_intrinsics
from costmodel.records import Config
from costmodel.search import Pool, SpaceSampler
from costmodel.search.samplers._history import History

BATCH = 8  # stock takes 64, which is half of a pool
AT_RANDOM = 0.05  # ``eps_greedy`` of stock's evolutionary search


@derived_object
class KnownFeatures(ms.feature_extractor.PyFeatureExtractor):
    """Looks up the features of candidates, by the schedule that they hold."""

    def __init__(self, known: dict[int, Any]) -> None:
        super().__init__()
        self.known = known

    def extract_from(self, context: Any, candidates: Sequence[Any]) -> list[Any]:
        return [self.known[hash(candidate.sch)] for candidate in candidates]


class ScheduledPool:
    """A pool as MetaSchedule sees it: scheduled once, and stock's per-store features extracted once."""

    def __init__(self, pool: Pool) -> None:
        register_tensor_intrinsics()
        self.pool = pool
        space = open_space(pool.candidates[0].workload, "cuda")
        self.context = ms.TuneContext(mod=space.module, target=space.target, num_threads=1)
        self.candidates = [ms.MeasureCandidate(space.schedule(c.config), []) for c in pool.candidates]
        stored = ms.feature_extractor.PerStoreFeature().extract_from(self.context, self.candidates)
        self.features = {hash(c.sch): tensor(f.numpy()) for c, f in zip(self.candidates, stored, strict=True)}


class StockXGBSampler(SpaceSampler):
    """Proposes batches of the best scores of an ``XGBModel`` that learns from each; the first at random.

    For one worker that tells each trial before it asks for the next.
    """

    def __init__(self, scheduled: ScheduledPool, *, seed: int) -> None:
        super().__init__(scheduled.pool, seed=seed)
        self.scheduled = scheduled
        self._model = XGBModel(
            extractor=KnownFeatures(scheduled.features),
            config=XGBConfig(seed=seed),
            num_warmup_samples=BATCH,
            num_tuning_cores=1,
            verbose_eval=0,
        )
        self._batch: list[int] = []
        self._learned = 0

    def choose(self, study: Study, trial: FrozenTrial, history: History) -> Config:
        pool = self.scheduled.pool
        if not self._batch:
            measured = [pool.position(pool.params(config)) for config in history.measured]
            self._learn(measured, history.value)
            self._batch = self._next_batch(np.setdiff1d(np.arange(len(pool)), measured), trial.number)
        return pool.candidates[self._batch.pop(0)].config

    def _learn(self, measured: list[int], latencies: np.ndarray) -> None:
        """Update the model with what was measured since the last time."""
        new = slice(self._learned, len(measured))
        candidates = [self.scheduled.candidates[i] for i in measured[new]]
        results = [
            ms.runner.RunnerResult([float(s)], None)
            if np.isfinite(s)
            else ms.runner.RunnerResult(None, "failed")
            for s in latencies[new]
        ]
        if candidates:
            self._model.update(self.scheduled.context, candidates, results)
        self._learned = len(measured)

    def _next_batch(self, untried: np.ndarray, number: int) -> list[int]:
        """The best scores, each with a small probability replaced by any other candidate."""
        rng = self.rng(number)
        drawn = rng.permutation(untried)
        if not self._learned:
            return [int(i) for i in drawn[:BATCH]]
        scores = self._model.predict(self.scheduled.context, [self.scheduled.candidates[i] for i in drawn])
        best_first = drawn[np.argsort(-scores, kind="stable")].tolist()
        batch: list[int] = []
        while best_first and len(batch) < BATCH:
            at = int(rng.integers(len(best_first))) if rng.random() < AT_RANDOM else 0
            batch.append(best_first.pop(at))
        return batch
