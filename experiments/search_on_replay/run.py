"""How many measurements each search needs, replayed on recorded measurements: see README.md here."""

import argparse
import json
import logging
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from rich.progress import track

from costmodel.dataset import Dataset, Split, SplitRecipe, load_dataset, make_split
from costmodel.files import write_json, write_whole
from costmodel.records._identity import content_id
from costmodel.transfer import load_model

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options
from picture import draw
from report import curves, markdown, read, summary
from searches import GP, is_searched, learner_of, replay, search_names, search_of
from tasks import Task, model_file, tasks_of


@dataclass(frozen=True)
class Settings:
    """What is searched and how; see ``--help``."""

    dataset: Path
    split: str
    folds: int
    searches: tuple[str, ...]
    every: int
    seeds: int
    cap: int
    until: float
    out: Path


def main() -> None:
    """Make the searches that were not made yet, and compare all."""
    arguments = parse()
    settings = Settings(
        arguments.dataset.resolve(),
        arguments.split,
        arguments.folds,
        tuple(chosen(arguments)),
        arguments.every,
        arguments.seeds,
        arguments.cap,
        arguments.until,
        arguments.out,
    )
    searched = content_id(*(task.name for task in tasks(settings)))
    kept = [kept_rows(arguments, path, searched) for path in (arguments.json, arguments.curves)]
    settings.out.mkdir(parents=True, exist_ok=True)
    fit_all(settings)
    left = [
        (place, name)
        for place, task in enumerate(tasks(settings))
        for name in settings.searches
        if is_searched(task, name) and not result_file(settings, task, name).exists()
    ]
    with ProcessPoolExecutor(arguments.processes) as pool:
        futures = [pool.submit(make_search, settings, place, name) for place, name in left]
        for future in track(as_completed(futures), "searching", total=len(futures)):
            future.result()
    results = read(settings.out, settings.searches)
    made = (summary(results, settings.cap), curves(results, settings.cap))
    names = search_names(arguments.learner, stock=True, gp=True)
    table, drawn = (
        in_order({**old, **of_tasks(new, searched)}, names) for new, old in zip(made, kept, strict=True)
    )
    print(markdown(table))
    for path, document in ((arguments.json, table), (arguments.curves, drawn)):
        if path:
            write_json(path, document)
    if arguments.plot:
        # Optuna's Gaussian process searches fewer tasks: a mean over others cannot stand beside these.
        draw({name: curve for name, curve in drawn.items() if name != GP}, arguments.plot)


def kept_rows(arguments: argparse.Namespace, path: Path | None, searched: str) -> dict[str, Any]:
    """What a file has of the searches that are not made now; nothing where all are.

    Args:
        arguments: The command line.
        path: The file.
        searched: What the tasks are known by: rows of others cannot stand beside those that are made.
    """
    if not (arguments.search and path and path.exists()):
        return {}
    rows = json.loads(path.read_text())
    kept = {name: row for name, row in rows.items() if name not in arguments.search}
    others = [name for name, row in kept.items() if row.get("tasks") != searched]
    if others:
        sys.exit(
            f"{path} must have searches of the tasks that are searched now, but those of {'; '.join(others)} "
            "are of others. Make all again, without --search, or name another file."
        )
    return kept


def of_tasks(rows: Mapping[str, Any], searched: str) -> dict[str, Any]:
    """Rows that say of which tasks they are."""
    return {name: {**row, "tasks": searched} for name, row in rows.items()}


def in_order(rows: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Rows by name, in this order."""
    return {name: rows[name] for name in names if name in rows}


def chosen(arguments: argparse.Namespace) -> list[str]:
    """The searches to make: those named, or all."""
    every = search_names(arguments.learner, stock=not arguments.no_tvm, gp=not arguments.no_gp)
    unknown = sorted(set(arguments.search or ()) - set(every))
    if unknown:
        sys.exit(f"--search must be among {'; '.join(every)}, but got {'; '.join(unknown)}.")
    return [name for name in every if name in (arguments.search or every)]


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", type=Path)
    parser.add_argument("--split")
    parser.add_argument("--folds", type=int, help="0: each value of the split alone")
    parser.add_argument("--learner", action="append", help="again for more (default: those of config.toml)")
    parser.add_argument(
        "--search",
        action="append",
        metavar="NAME",
        help="make these searches alone, again for more, and keep the others in --json and --curves",
    )
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
    parser.add_argument("--curves", type=Path, help="where to write the mean best so far")
    parser.add_argument("--plot", type=Path, help="where to draw it")
    return parse_options(parser, __file__, argv)


def fit_all(settings: Settings) -> None:
    """Fit and keep the models of all tasks, as far as there are none."""
    for task, name in product(tasks(settings), settings.searches):
        fitted(settings, task, name)


def fitted(settings: Settings, task: Task, name: str) -> Path | None:
    """The file of the model that a search knows; None where it knows nothing."""
    learner = learner_of(name)
    dataset, split = opened(settings.dataset, settings.split, settings.folds)
    return model_file(dataset, split, task, learner, settings.out / "models") if learner else None


def make_search(settings: Settings, place: int, name: str) -> None:
    """Search one task in one way with every seed, and write the results to one file."""
    logging.getLogger("optuna").setLevel(logging.WARNING)
    logging.getLogger("tvm").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", category=UserWarning, module="optuna")
    task = tasks(settings)[place]
    path = fitted(settings, task, name)
    search = search_of(name, task.pool, load_model(path).model if path else None, settings.seeds)
    about = {"task": task.name, "number": task.number, "fold": task.fold, "candidates": len(task.pool)}
    rows: list[dict[str, Any]] = [
        {**about, "search": name, "seed": seed, **replay(task, search, seed, settings.cap, settings.until)}
        for seed in range(search.seeds)
    ]
    write_whole(result_file(settings, task, name), f"{json.dumps(rows)}\n".encode())


def result_file(settings: Settings, task: Task, name: str) -> Path:
    words = re.findall(r"[a-z0-9]+", name.lower())
    return settings.out / f"task-{task.number:03}-{'-'.join(words)}.json"


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
