"""How many measurements each search needs, replayed on recorded measurements: see README.md here."""

import argparse
import json
import logging
import sys
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from report import draw, markdown, read, summary
from rich.progress import track
from searches import replay, searches_of
from tasks import Task, model_file, tasks_of

from costmodel.dataset import Dataset, Split, SplitRecipe, load_dataset, make_split
from costmodel.files import write_whole
from costmodel.transfer import load_model

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options


@dataclass(frozen=True)
class Settings:
    """What is searched and how; see ``--help``."""

    dataset: Path
    split: str
    folds: int
    learners: tuple[str, ...]
    every: int
    seeds: int
    cap: int
    until: float
    tvm: bool
    gp: bool
    out: Path


def main() -> None:
    """Search the tasks that were not searched yet, and compare all."""
    arguments = parse()
    settings = Settings(
        arguments.dataset.resolve(),
        arguments.split,
        arguments.folds,
        tuple(arguments.learner),
        arguments.every,
        arguments.seeds,
        arguments.cap,
        arguments.until,
        not arguments.no_tvm,
        not arguments.no_gp,
        arguments.out,
    )
    settings.out.mkdir(parents=True, exist_ok=True)
    fit_all(settings)
    left = [place for place, task in enumerate(tasks(settings)) if not result_file(settings, task).exists()]
    with ProcessPoolExecutor(arguments.processes) as pool:
        futures = [pool.submit(search_task, settings, place) for place in left]
        for future in track(as_completed(futures), "searching", total=len(futures)):
            future.result()
    results = read(settings.out)
    table = summary(results, settings.cap)
    print(markdown(table))
    if arguments.json:
        arguments.json.write_text(json.dumps(table.to_dict(orient="index"), indent=2) + "\n")
    if arguments.plot:
        draw(results, settings.cap, arguments.plot)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", type=Path)
    parser.add_argument("--split")
    parser.add_argument("--folds", type=int, help="0: each value of the split alone")
    parser.add_argument("--learner", action="append", help="again for more (default: those of config.toml)")
    parser.add_argument("--every", type=int, help="every how many tasks one is searched")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--cap", type=int, help="measurements after which a search has failed")
    parser.add_argument("--until", type=float, help="a search ends this near the best, as a share")
    parser.add_argument("--no-tvm", action="store_true", help="leave stock out, as for kernels of others")
    parser.add_argument("--no-gp", action="store_true", help="leave Optuna's Gaussian process out")
    parser.add_argument("--processes", type=int)
    parser.add_argument(
        "--out", type=Path, required=True, help="models and results; goes on with what is there"
    )
    parser.add_argument("--json", type=Path, help="where to write the table")
    parser.add_argument("--plot", type=Path, help="where to draw the best so far")
    return parse_options(parser, __file__, argv)


def fit_all(settings: Settings) -> None:
    """Fit and keep the models of all tasks, as far as there are none."""
    dataset, split = opened(settings.dataset, settings.split, settings.folds)
    for task, learner in product(tasks(settings), settings.learners):
        model_file(dataset, split, task, learner, settings.out / "models")


def search_task(settings: Settings, place: int) -> None:
    """Search one task with each sampler, and write all results of it to one file."""
    logging.getLogger("optuna").setLevel(logging.WARNING)
    logging.getLogger("tvm").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", category=UserWarning, module="optuna")
    dataset, split = opened(settings.dataset, settings.split, settings.folds)
    task = tasks(settings)[place]
    models = {
        name: load_model(model_file(dataset, split, task, name, settings.out / "models")).model
        for name in settings.learners
    }
    about = {"task": task.name, "number": task.number, "fold": task.fold, "candidates": len(task.pool)}
    rows: list[dict[str, Any]] = [
        {
            **about,
            "search": one.name,
            "seed": seed,
            **replay(task, one.make(seed), settings.cap, settings.until),
        }
        for one in searches_of(task, models, settings.seeds, stock=settings.tvm, gp=settings.gp)
        for seed in range(one.seeds)
    ]
    write_whole(result_file(settings, task), f"{json.dumps(rows)}\n".encode())


def result_file(settings: Settings, task: Task) -> Path:
    return settings.out / f"task-{task.number:03}.json"


@cache
def opened(dataset: Path, strategy: str, folds: int) -> tuple[Dataset, Split]:
    """The dataset and its split."""
    data = load_dataset(dataset)
    return data, make_split(data, SplitRecipe(strategy, folds=folds))


@cache
def tasks(settings: Settings) -> list[Task]:
    """The tasks to search, in order."""
    return list(tasks_of(*opened(settings.dataset, settings.split, settings.folds)))[:: settings.every]


if __name__ == "__main__":
    main()
