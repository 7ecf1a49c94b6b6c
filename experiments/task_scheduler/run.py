"""Which task of a network should be measured next: see README.md here."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import optuna
import pandas as pd
from rich.progress import track

from costmodel.collector import ReplayRunner
from costmodel.dataset import Dataset, load_dataset
from costmodel.dataset.splits._make import drop_final_report
from costmodel.files import write_json
from costmodel.records import Workload
from costmodel.search import ModelSampler, Search, SearchSpace
from costmodel.service._schedule import RULES, TaskState
from costmodel.tuning._knowledge import NOTHING, Knowledge, known_from
from costmodel.workloads import catalogue

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

BEST = "expected-gain"


@dataclass(frozen=True)
class Curve:
    """What a search of one task finds, measurement by measurement.

    Attributes:
        best_s: Best latency after 1, 2, ... measurements.
        gain: What the model expects of the next one then, as a share.
    """

    best_s: list[float]
    gain: list[float | None]


@dataclass(frozen=True)
class Network:
    """What is to be fast as a whole.

    Attributes:
        name: Its name.
        weights: Calls of each workload.
    """

    name: str
    weights: dict[str, int]


def main() -> None:
    """Search each task once, let each rule share out measurements, and print what the whole then takes."""
    args = parse()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    dataset = drop_final_report(load_dataset(args.dataset))
    networks = list(recorded_networks(dataset, args.networks))
    most = max(len(network.weights) for network in networks) * max(args.trials)
    names = sorted({name for network in networks for name in network.weights})
    rows = []
    for learner in args.learners:
        curves, best_s = {}, {}
        for name in track(names, f"searching with {learner}"):
            runner = replay_of(dataset, name, args.device)
            best_s[name] = min(runner.known_latencies(name)[args.sms].values())
            space = runner.space(name, [runner.platform(args.sms)])
            known = knowledge(dataset, name, runner, learner)
            for seed in range(args.seeds):
                curves[name, seed] = searched(runner, space, known, seed, most)
        for network in networks:
            known_s = total(network.weights, best_s)
            for trials in args.trials:
                for seed in range(args.seeds):
                    of_seed = {name: curves[name, seed] for name in network.weights}
                    found = {
                        rule: shared_out(rule, network.weights, of_seed, trials, args.slice) / known_s
                        for rule in RULES
                    }
                    rows.append({"learner": learner, "network": network.name, "trials": trials, **found})
    table = summary(pd.DataFrame(rows))
    print(table.to_string(index=False))
    if args.json:
        write_json(args.json, table.to_dict("records"))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", help="what is replayed and learned from")
    parser.add_argument("--device", help="part of its name")
    parser.add_argument("--sms", type=int, help="SMs that the network has")
    parser.add_argument("--networks", nargs="+", help="names in the catalogue of workloads")
    parser.add_argument("--learners", nargs="+", help="what knows other workloads, or nothing")
    parser.add_argument("--trials", type=int, nargs="+", help="measurements a task on average")
    parser.add_argument("--slice", type=int, help="measurements between two choices of a rule")
    parser.add_argument("--seeds", type=int, help="searches of each task")
    parser.add_argument("--json", type=Path, help="where to write the result")
    return parse_options(parser, __file__, argv)


def recorded_networks(dataset: Dataset, names: Sequence[str]) -> Iterator[Network]:
    """The recorded workloads of networks, in float32."""
    for name in names:
        entries = [entry for entry in catalogue(name) if entry.workload.dtype == "float32"]
        calls = {entry.workload.name: entry.networks[name] for entry in entries}
        yield Network(name, {each: calls[each] for each in calls if each in dataset.workloads})


def replay_of(dataset: Dataset, workload: str, device: str) -> ReplayRunner:
    measurements = dataset.to_measurements(workload)
    return ReplayRunner(m for m in measurements if device in m.platform.device.name)


def knowledge(dataset: Dataset, workload: str, runner: ReplayRunner, learner: str) -> Knowledge:
    """What is known of a workload from all others, as a replay of ``costmodel tune`` knows it."""
    if learner == NOTHING:
        return Knowledge()
    device = runner.platform().device.name
    return known_from(dataset, Workload.parse(workload), device, "", learner=learner, keep_twins_apart=False)


def searched(runner: ReplayRunner, space: SearchSpace, known: Knowledge, seed: int, most: int) -> Curve:
    """A search of one task; it depends on no other, so that every rule can be tried on it."""
    search = Search(runner, ModelSampler(space.in_columns(known.columns), known.model, seed=seed), most)
    best_s, gain = [], []
    while search.propose():
        search.measure()
        best_s.append(float(search.result.latency_s[:, 0].min()))
        gain.append(search.expected_gain)
    return Curve(best_s, gain)


def shared_out(rule: str, weights: dict[str, int], curves: dict[str, Curve], trials: int, size: int) -> float:
    """Seconds of the network where a rule shared out its measurements."""
    names, measured = list(weights), dict.fromkeys(weights, 0)
    histories: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(trials * len(names) // size):
        states = [
            TaskState(
                weights[name],
                measured[name],
                tuple(histories[name]),
                curves[name].gain[measured[name] - 1] if measured[name] else None,
            )
            for name in names
        ]
        name = names[RULES[rule](states)]
        measured[name] += size
        histories[name].append(curves[name].best_s[measured[name] - 1])
    return total(weights, {name: histories[name][-1] for name in names})


def total(weights: dict[str, int], latency_s: dict[str, float]) -> float:
    return sum(weights[name] * latency_s[name] for name in weights)


def summary(found: pd.DataFrame) -> pd.DataFrame:
    """Geometric means over seeds: the whole over the best known, and the rule of the model over others."""
    rows = []
    for (learner, network, trials), seeds in found.groupby(["learner", "network", "trials"], sort=False):
        row = {"learner": learner, "network": network, "trials": trials}
        row |= {rule: mean(seeds[rule]) for rule in RULES}
        for rule in RULES:
            if rule != BEST:
                row[f"over {rule}"] = mean(seeds[BEST] / seeds[rule])
                row[f"no worse than {rule}"] = float((seeds[BEST] <= seeds[rule] * (1 + 1e-9)).mean())
        rows.append(row)
    return pd.DataFrame(rows).round(4)


def mean(values: "pd.Series[float]") -> float:
    return float(np.exp(np.log(values).mean()))


if __name__ == "__main__":
    main()
