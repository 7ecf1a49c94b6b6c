"""How fast rounds of proposals come near the best kernels, on a learned stand-in for a GPU: see README.md."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
from rich.progress import track
from sklearn.ensemble import ExtraTreesRegressor

from costmodel.dataset import Dataset, load_dataset
from costmodel.features import extract
from costmodel.kernels import sample_candidates
from costmodel.learners import XGBoostLearner
from costmodel.records import Candidate, Measurement, Outcome, Platform, Workload
from costmodel.search._propose import propose_candidates

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

DATASET = Path(__file__).parents[2] / "datasets" / "sm-budgets"
DEVICE = "NVIDIA H200"
# The settings of the proposals were tried on the first two; the others are reported.
CHOSEN_ON = ("matmul-m1024-n1024-k1024-float16", "conv2d_bias_add-n1-c576-h14-w14-o96-k1-s1")
REPORTED = (
    "matmul_bias_add-m256-n768-k3072-float16",
    "conv2d_nhwc_bias_relu-n8-c64-h56-w56-o192-k3-s1-float16",
    "conv2d-n1-c256-h14-w14-o256-k3-s1",
    "batch_matmul-b16-m256-n64-k256",
)
BUDGETS = (8, 32, 132)
SEEDS = (0, 1, 2)
FIRST, ROUNDS, PER_ROUND = 24, 3, 14
ROUGHNESS = 0.05  # standard deviation of the log latency that nothing tells


class StandIn:
    """Latencies of one workload's kernels that trees learned, made rough: a kernel always has the same.

    Boosted trees on the features of all workloads' kernels, and on what they get wrong of this workload's
    own, extremely randomised trees that see each decision too.
    """

    def __init__(self, workload: str) -> None:
        dataset = load_dataset(DATASET)
        rows = dataset.rows[np.isfinite(dataset.rows["latency_s"])]
        self.platforms = [_platform(dataset, sms) for sms in BUDGETS]
        rows = rows[rows["platform"].isin([dataset.platforms.index(p) for p in self.platforms])]
        candidates = [dataset.candidates[i] for i in rows["candidate"]]
        table = extract(candidates, [dataset.platforms[i] for i in rows["platform"]])
        latencies = rows["latency_s"].to_numpy()
        self._pooled = XGBoostLearner(table.index("log2_roofline_s"))
        self._pooled.fit(table.values, latencies, rows["task"].to_numpy())
        own = (rows["workload"] == workload).to_numpy()
        decided = [_decided(candidates[i]) for i in np.flatnonzero(own)]
        self._names = sorted({name for decisions in decided for name in decisions})
        seen, error = (
            self._seen(decided, table.values[own]),
            np.log(latencies[own] / self._predict(table.values[own])),
        )
        self._own = ExtraTreesRegressor(200, max_features=0.5, min_samples_leaf=2, random_state=0).fit(
            seen, error
        )

    def measure(self, candidates: Sequence[Candidate]) -> list[Measurement]:
        """Each candidate at each budget."""
        pairs = list(product(candidates, self.platforms))
        X = extract(*zip(*pairs, strict=True)).values
        error = self._own.predict(self._seen([_decided(candidate) for candidate, _ in pairs], X))
        latencies = self._predict(X) * np.exp(error)
        return [self._measurement(*pair, s) for pair, s in zip(pairs, latencies, strict=True)]

    def _predict(self, X: np.ndarray) -> np.ndarray:
        latency_s = self._pooled.predict(X).latency_s
        assert latency_s is not None
        return latency_s

    def _seen(self, decided: Sequence[dict[str, float]], X: np.ndarray) -> np.ndarray:
        """Features and decisions; -1 where there is none."""
        values = [[decisions.get(name, -1.0) for name in self._names] for decisions in decided]
        return np.hstack([np.nan_to_num(X, nan=-1.0), values])

    def _measurement(self, candidate: Candidate, platform: Platform, latency_s: float) -> Measurement:
        luck = np.random.default_rng(int(candidate.candidate_id, 16)).normal()
        return Measurement(
            candidate=candidate,
            platform=platform,
            outcome=Outcome.OK,
            latencies_s=(float(latency_s * np.exp(ROUGHNESS * luck)),),
            measured_at="",
        )


def _platform(dataset: Dataset, sms: int) -> Platform:
    """Where kernels had so many SMs and the rest of the device was idle."""
    return next(
        platform
        for platform in dataset.platforms
        if (platform.device.name, platform.sms_granted) == (DEVICE, sms) and platform.isolation != "mps"
    )


def _decided(candidate: Candidate) -> dict[str, float]:
    """Each factor and each number that was chosen."""
    return {
        f"{name} {i}": float(number)
        for name, value in candidate.config.decisions.items()
        for i, number in enumerate(value if isinstance(value, tuple) else (value,))
    }


def random_draws(workload: Workload, count: int, seed: int, measured: list[Measurement]) -> list[Candidate]:
    return sample_candidates(workload, "cuda", count, seed, known=[m.candidate for m in measured])


def near_the_fastest(
    workload: Workload, count: int, seed: int, measured: list[Measurement]
) -> list[Candidate]:
    """One to three random changes of one of the three fastest at each budget: what campaigns did before."""
    by_speed = sorted(measured, key=lambda m: m.latency_s)
    at_budgets = [[m for m in by_speed if m.platform.sms_granted == sms][:3] for sms in BUDGETS]
    parents = {m.candidate.candidate_id: m.candidate.config for fastest in at_budgets for m in fastest}
    known = [m.candidate for m in measured]
    return sample_candidates(workload, "cuda", count, seed, parents=list(parents.values()), known=known)


def by_model(workload: Workload, count: int, seed: int, measured: list[Measurement]) -> list[Candidate]:
    return propose_candidates(workload, "cuda", count, seed, measured=measured, budgets=BUDGETS)


WAYS = {"random": random_draws, "near the fastest": near_the_fastest, "model": by_model}


@cache
def stand_in(workload: str) -> StandIn:
    """Trained once in each process."""
    return StandIn(workload)


def collect(case: tuple[str, str, int]) -> dict[str, object]:
    """One campaign of one workload: best latency so far at each budget, after each round."""
    way, name, seed = case
    workload, device = Workload.parse(name), stand_in(name)
    measured = device.measure(random_draws(workload, FIRST, seed, []))
    curve, seconds = [fastest(measured)], 0.0
    for round_ in range(1, ROUNDS + 1):
        started = time.perf_counter()
        chosen = WAYS[way](workload, PER_ROUND, 1000 * seed + round_, measured)
        seconds += (time.perf_counter() - started) / ROUNDS
        measured += device.measure(chosen)
        curve.append(fastest(measured))
    return {"way": way, "workload": name, "seed": seed, "best_s": curve, "seconds_a_round": seconds}


def fastest(measured: Sequence[Measurement]) -> list[float]:
    """Best latency in seconds at each budget."""
    return [min(m.latency_s for m in measured if m.platform.sms_granted == sms) for sms in BUDGETS]


def scores(results: pd.DataFrame) -> pd.DataFrame:
    """Best that any way found in any seed / best so far, for each campaign, budget and round."""
    best_s = np.array(results["best_s"].to_list())  # (campaigns, rounds + 1, budgets)
    rows = []
    for workload, positions in results.groupby("workload").indices.items():
        known = best_s[positions].min(axis=(0, 1))
        for i, (round_, (j, sms)) in product(positions, product(range(ROUNDS + 1), enumerate(BUDGETS))):
            score = known[j] / best_s[i, round_, j]
            kernels = FIRST + round_ * PER_ROUND
            rows.append((workload, results["way"][i], results["seed"][i], sms, kernels, score))
    return pd.DataFrame(rows, columns=["workload", "way", "seed", "sms", "kernels", "score"])


def main() -> None:
    """Run every campaign and print mean scores."""
    arguments = parse()
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # one process a core; workers inherit it
    cases = list(product(arguments.ways, CHOSEN_ON if arguments.chosen_on else REPORTED, SEEDS))
    with ProcessPoolExecutor(arguments.workers, mp_context=get_context("spawn")) as pool:
        found = list(track(pool.map(collect, cases), "collecting", total=len(cases)))
    results = pd.DataFrame(found)
    if arguments.json:
        arguments.json.write_text(results.to_json(orient="records", indent=2) + "\n")
    if arguments.before:
        before = pd.read_json(arguments.before).assign(way=lambda rows: "before: " + rows["way"])
        results = pd.concat([before, results], ignore_index=True)
    every = scores(results)
    table = every.pivot_table(index=["workload", "way"], columns="kernels", values="score", sort=False)
    last = every[every["kernels"] == every["kernels"].max()].groupby(["workload", "way"])
    table["worst budget"] = last.apply(lambda at: at.groupby("sms")["score"].mean().min())
    table["seconds a round"] = results.groupby(["workload", "way"])["seconds_a_round"].mean()
    print(table.round(3).to_string())


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="file for the campaigns")
    parser.add_argument("--before", type=Path, help="such a file of an earlier checkout, to compare with")
    parser.add_argument("--ways", nargs="+", choices=WAYS, help="ways to choose")
    parser.add_argument("--workers", type=int, help="processes")
    parser.add_argument(
        "--chosen-on", action="store_true", help="the workloads that the constants were chosen on"
    )
    return parse_options(parser, __file__, argv)


if __name__ == "__main__":
    main()
