"""Search functions of which nothing is known with our sampler and Optuna's. See README.md."""

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import optuna
import pandas as pd
from landscapes import Landscape, landscapes
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler
from optuna.trial import TrialState
from rich.progress import track

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

from costmodel.files import write_json
from costmodel.search import ModelSampler, PoolSampler


def _gaussian_process(landscape: Landscape, seed: int) -> BaseSampler:
    """Optuna's GPSampler; it would propose what is not recorded for ever, as it learns nothing from that."""
    sampler = GPSampler(seed=seed)
    return sampler if landscape.pool is None else PoolSampler(landscape.pool, sampler, seed=seed)


SAMPLERS: dict[str, Callable[[Landscape, int], BaseSampler]] = {
    "random": lambda landscape, seed: RandomSampler(seed=seed),
    "TPE": lambda landscape, seed: TPESampler(seed=seed),
    "GPSampler": _gaussian_process,
    "ModelSampler": lambda landscape, seed: ModelSampler(landscape.space, seed=seed),
}
OURS, THEIRS = "ModelSampler", ("TPE", "GPSampler")
MOST_REFUSED = 5_000  # proposals that are not recorded, after which a search ends


def main() -> None:
    """Search each landscape with each sampler and seed, and compare the scores."""
    arguments = parse()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    curves = searched(arguments)
    means = curves.groupby(["landscape", "evaluations", "sampler"], sort=False)["score"].mean().unstack()
    print(means.round(3).to_string())
    found = {"scores": means.reset_index().to_dict("records"), "summary": summarise(means)}
    print(json.dumps(found["summary"], indent=1))
    if arguments.json:
        write_json(arguments.json, found)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Options; defaults stand in config.toml."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with <suite>/<kernel>/*.json.gz of Kernel Tuner")
    parser.add_argument("--samplers", nargs="+", choices=SAMPLERS)
    parser.add_argument("--landscapes", nargs="+", metavar="NAME", help="those whose names begin so; or all")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--evaluations", nargs="+", type=int, help="numbers of evaluations to compare at")
    parser.add_argument("--out", type=Path, help="JSON lines of finished searches, which are not made again")
    parser.add_argument("--json", type=Path)
    return parse_options(parser, __file__, argv)


def searched(arguments: argparse.Namespace) -> pd.DataFrame:
    """Score after each number of evaluations, for each landscape, sampler and seed."""
    most = max(arguments.evaluations)
    known = _known(arguments.out)
    rows = []
    for name, make in landscapes(arguments.data).items():
        if arguments.landscapes and not name.startswith(tuple(arguments.landscapes)):
            continue
        landscape = make()
        for sampler in arguments.samplers:
            for seed in track(range(arguments.seeds), f"{name}, {sampler}", disable=not sys.stderr.isatty()):
                key = (name, sampler, seed)
                if key not in known:
                    known[key] = scores(landscape, SAMPLERS[sampler](landscape, seed), most)
                    _keep(arguments.out, key, known[key])
                rows += [(*key, count, known[key][count - 1]) for count in arguments.evaluations]
    return pd.DataFrame(rows, columns=["landscape", "sampler", "seed", "evaluations", "score"])


def scores(landscape: Landscape, sampler: BaseSampler, count: int) -> list[float]:
    """Best value over the best found that is feasible, after each evaluation; 0 before one is."""
    study = optuna.create_study(sampler=sampler)
    best, found = np.inf, list[float]()
    for _ in range(count + MOST_REFUSED):
        trial = study.ask()
        config = landscape.space.suggest(trial).decisions
        if not landscape.is_recorded(config):
            study.tell(trial, state=TrialState.FAIL)
            continue
        value = landscape.time(config)
        for key, constraint in landscape.constraints.items():
            trial.set_constraint(key, constraint(config))
        study.tell(trial, value, state=TrialState.FAIL if value is None else None)
        if value is not None and landscape.is_feasible(config):
            best = min(best, value)
        found.append(float(landscape.best / best))
        if len(found) == count:
            break
    return found + [found[-1] if found else 0.0] * (count - len(found))


def summarise(means: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Ours against the better of the others on each landscape: median and worst difference of scores."""
    if not {OURS, *THEIRS} <= set(means.columns):
        return {}
    margin = means[OURS] - means[list(THEIRS)].max(axis=1)
    return {
        str(count): {
            "median margin": round(float(each.median()), 4),
            "worst margin": round(float(each.min()), 4),
            "landscapes ahead or equal": int((each >= 0).sum()),
        }
        for count, each in margin.groupby(level="evaluations")
    }


def _known(out: Path | None) -> dict[tuple[str, str, int], list[float]]:
    """Finished searches of an earlier run."""
    if out is None or not out.is_file():
        return {}
    lines = map(json.loads, out.read_text(encoding="utf-8").splitlines())
    return {(line["landscape"], line["sampler"], line["seed"]): line["scores"] for line in lines}


def _keep(out: Path | None, key: tuple[str, str, int], found: list[float]) -> None:
    """Add a finished search."""
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        line = dict(zip(("landscape", "sampler", "seed"), key, strict=True)) | {"scores": found}
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
