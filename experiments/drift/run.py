"""Is a drift of all measured times noticed soon, and never where there is none? See README.md here."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.files import write_json
from costmodel.search import DriftMonitor
from costmodel.search._drift_monitor import Drift

sys.path += [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
from kit.results import markdown_table
from logs import Log, campaigns, searches
from options import parse_options

WINDOW, EARLIEST, LATEST = 150, 40, 90  # kernels around a planted drift, and where in them it begins
SOON = 50  # measurements in which it is to be found
AT_ONCE, FEWEST = 4, 3  # kernels measured again in a row, and to choose them from, as a search does


def main() -> None:
    options = parse()
    logs = [log for name in options.datasets for log in campaigns(name, options.learner, options.folds)]
    found = searches(options.datasets[0], options.sms, options.trials, options.searches, options.seed)
    result = {
        "quiet": [quiet(log, options.seed) for log in logs],
        "searches": [quiet(log, options.seed) for log in found],
        "planted": list(planted(logs, options)),
    }
    print(markdown(result))
    if options.json:
        write_json(options.json, result)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", metavar="NAME", help="whose campaigns are watched")
    parser.add_argument("--learner", help="what predicts")
    parser.add_argument("--folds", type=int, help="of workloads")
    parser.add_argument("--searches", type=int, help="workloads that are searched for")
    parser.add_argument("--sms", type=int, help="SMs of the searches")
    parser.add_argument("--trials", type=int, help="of a search")
    parser.add_argument("--factors", type=float, nargs="+", help="that are planted, and their inverses")
    parser.add_argument("--draws", type=int, help="places of each factor in each campaign")
    parser.add_argument("--seed", type=int, help="of places and of what is measured again")
    parser.add_argument("--json", type=Path, help="where to write the result")
    return parse_options(parser, __file__, argv)


class Watched:
    """A log as a live session would have watched it.

    Args:
        log: The log.
        rng: Chooses what is measured again, and one of the log's second measurements for the noise of it.
        onset: Kernel from which on all times are multiplied.
        factor: By what.
        repeats: Whether kernels are measured again; where not, predictions alone are believed.
    """

    def __init__(
        self, log: Log, rng: np.random.Generator, *, onset: int, factor: float, repeats: bool
    ) -> None:
        self.log, self.rng = log, rng
        self.drifted = np.where(np.arange(len(log.kernels)) < onset, 0.0, np.log(factor))
        self.most = AT_ONCE if repeats else 0
        self.monitor = DriftMonitor()
        self.repeated = 0

    def drifts(self) -> Iterator[tuple[int, Drift]]:
        """Each drift that is told, and the kernel at which it is."""
        checked = start = 0
        for i, row in enumerate(self.log.kernels.itertuples()):
            self.monitor.add(row.task, row.log_ratio + self.drifted[i], measurements=row.measurements)
            undoubted = self.rng.permutation(np.arange(start, checked or (start + i) // 2 + 1))
            for j in undoubted[: self.most if undoubted.size >= FEWEST else 0]:
                if not self.monitor.repeats_due or self.monitor.drift:
                    break
                noise = self.rng.choice(self.log.again)
                self.monitor.repeat(int(j), noise + self.drifted[i] - self.drifted[j])
                self.repeated, checked = self.repeated + 1, i + 1
            drift = self.monitor.drift if self.most else self.by_predictions
            if drift:
                yield i, drift
                self.monitor.reset()
                checked, start = 0, i + 1

    @property
    def by_predictions(self) -> Drift | None:
        """What would be told if predictions were enough; its ratio and onset are not looked at."""
        enough = self.monitor.evidence >= self.monitor.run_length
        return Drift(np.nan, self.monitor.records) if enough else None


def quiet(log: Log, seed: int) -> dict[str, Any]:
    """What is told of a log in which nobody planted anything."""
    told = {}
    for repeats in (True, False):
        watched = Watched(log, np.random.default_rng(seed), onset=0, factor=1.0, repeats=repeats)
        told[repeats] = len(list(watched.drifts())), watched.repeated
    return {
        "log": log.title,
        "kernels": len(log.kernels),
        "measurements": int(log.kernels["measurements"].sum()),
        "false_alarms": told[True][0],
        "false_alarms_by_predictions": told[False][0],
        "repeated": told[True][1],
    }


def planted(logs: Sequence[Log], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """How soon planted drifts are told."""
    for factor in [each for f in options.factors for each in (f, 1.0 / f)]:
        for repeats in (True, False):
            outcomes = [
                one(log, factor, np.random.default_rng([options.seed, draw]), repeats=repeats)
                for log in logs
                for draw in range(options.draws)
            ]
            yield {"factor": factor, "repeats": repeats, **summary(outcomes, factor)}


def one(log: Log, factor: float, rng: np.random.Generator, *, repeats: bool) -> tuple[int, Drift, int] | None:
    """Measurements from a drift until it is told, what is told, and kernels by which its onset is off."""
    start = int(rng.integers(len(log.kernels) - WINDOW))
    window = replace(log, kernels=log.kernels.iloc[start : start + WINDOW].reset_index(drop=True))
    onset = int(rng.integers(EARLIEST, LATEST))
    for at, drift in Watched(window, rng, onset=onset, factor=factor, repeats=repeats).drifts():
        if at >= onset:
            measured = int(window.kernels["measurements"].iloc[onset : at + 1].sum())
            return measured, drift, drift.since - onset
    return None


def summary(outcomes: list[tuple[int, Drift, int] | None], factor: float) -> dict[str, Any]:
    told = [each for each in outcomes if each is not None]
    delay = np.array([measured for measured, _, _ in told])
    found = {
        "drifts": len(outcomes),
        "found": len(told) / len(outcomes),
        "found_soon": float((delay <= SOON).sum() / len(outcomes)),
    }
    if told:
        found["delay_median"] = float(np.median(delay))
        found["delay_p90"] = float(np.quantile(delay, 0.9))
        found["delay_most"] = float(delay.max())
    if told and all(np.isfinite(drift.ratio) for _, drift, _ in told):
        ratio_off = [abs(drift.ratio / factor - 1.0) for _, drift, _ in told]
        found["ratio_error_p90"] = float(np.quantile(ratio_off, 0.9))
        found["onset_error_p90"] = float(np.quantile([abs(off) for _, _, off in told], 0.9))
    return found


def markdown(result: dict[str, Any]) -> str:
    """The tables of the README."""
    header = ("log", "kernels", "measurements", "measured again", "false alarms", "by predictions alone")
    quiet_rows = [*result["quiet"], together(result["searches"])]
    told = markdown_table(header, [quiet_line(row) for row in quiet_rows])
    header = ("times", "told by", "found", f"within {SOON}", "measurements until then, median (p90)", "most")
    header += ("ratio off, p90", "onset off, p90")
    return f"{told}\n\n{markdown_table(header, map(planted_line, result['planted']), texts=2)}"


def together(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All searches in one row."""
    names = [name for name in rows[0] if name != "log"]
    return {"log": f"{len(rows)} searches", **{name: sum(row[name] for row in rows) for name in names}}


def quiet_line(row: dict[str, Any]) -> list[str]:
    names = ("kernels", "measurements", "repeated", "false_alarms", "false_alarms_by_predictions")
    return [row["log"], *(f"{row[name]:,}" for name in names)]


def planted_line(row: dict[str, Any]) -> list[str]:
    by = "repeats" if row["repeats"] else "predictions alone"
    cells = [f"{row['factor']:.2f}", by, percent(row["found"]), percent(row["found_soon"])]
    if row["found"]:
        cells += [f"{row['delay_median']:.0f} ({row['delay_p90']:.0f})", f"{row['delay_most']:.0f}"]
    if "ratio_error_p90" in row:
        cells += [f"{100 * row['ratio_error_p90']:.1f} %", f"{row['onset_error_p90']:.0f} kernels"]
    return cells + [""] * (8 - len(cells))


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


if __name__ == "__main__":
    main()
