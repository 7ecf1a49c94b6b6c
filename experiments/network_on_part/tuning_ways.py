"""The ways of tuning that are compared: stock MetaSchedule, and MetaSchedule with the plug-in."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from costmodel.kernels.metaschedule._tvm_start import register_tensor_intrinsics
from costmodel.records import Platform
from costmodel.records._platform import TargetKind

TUNED, PLATFORM = "tuned.jsonl", "platform.json"  # the plug-in's database, and where it was measured


@dataclass(frozen=True)
class Settings:
    """Of all phases alike.

    Attributes:
        kind: Kind of device.
        trials: Of each task.
        batch: Trials of a task that stock builds and measures at once.
        population: Of stock's evolution.
        generations: Of stock's evolution.
        threads: Of stock: those of XGBoost, and processes that build.
        model: File of a pretrained model for the plug-in; it learns from nothing without one.
        keep_builders: Whether stock has the plug-in's builder, whose processes stay.
    """

    kind: TargetKind
    trials: int
    batch: int
    population: int
    generations: int
    threads: int
    model: Path | None
    keep_builders: bool

    @property
    def rules(self) -> str:
        """Name of MetaSchedule's rules, postprocessors and mutators: those that our spaces are made of."""
        return {"cuda": "cuda", "cpu": "llvm"}[self.kind]


Pieces = dict[str, Any]  # what ``tune_relax`` is given by these names


@dataclass(frozen=True)
class Phase:
    """One way to tune.

    Attributes:
        name: Of its row and of its folder.
        sms: What it tunes for.
        pieces: Opens, from settings, folder and ``sms``, what it tunes with.
        database: Opens, from the folder, what it found.
    """

    name: str
    sms: int
    pieces: Callable[[Settings, Path, int], AbstractContextManager[Pieces]]
    database: Callable[[Path], Any]


def stock_phase(name: str, sms: int) -> Phase:
    """MetaSchedule as it comes, which measures on the whole device and knows nothing of SMs."""
    return Phase(name, sms, _stock_pieces, _stock_database)


def plug_in_phase(name: str, sms: int) -> Phase:
    """MetaSchedule with our plug-in, which measures and predicts for so many SMs."""
    return Phase(name, sms, _plug_in_pieces, _plug_in_database)


@contextmanager
def _stock_pieces(settings: Settings, folder: Path, _: int) -> Iterator[Pieces]:
    """Stock's defaults, but for time-outs.

    Its builder starts processes for each batch, in each of which a build first imports TVM's tensor
    intrinsics: the initialiser does that quickly.
    """
    from tvm.s_tir import meta_schedule as ms

    from costmodel.integrations.tvm import Builder

    threads, start = settings.threads, register_tensor_intrinsics
    local = partial(ms.builder.LocalBuilder, max_workers=threads, timeout_sec=300.0, initializer=start)
    builder = Builder(max_workers=threads) if settings.keep_builders else local()
    try:
        yield {
            "builder": builder,
            "runner": ms.runner.LocalRunner(timeout_sec=100.0),
            "cost_model": ms.cost_model.XGBModel(num_tuning_cores=threads),
            "strategy": ms.search_strategy.EvolutionarySearch(
                population_size=settings.population, genetic_num_iters=settings.generations
            ),
            "num_trials_per_iter": settings.batch,
            "database": _stock_database(folder),
        }
    finally:
        if settings.keep_builders:
            builder.close()


def _stock_database(folder: Path) -> Any:
    from tvm.s_tir import meta_schedule as ms

    return ms.database.JSONDatabase(work_dir=str(folder))


@contextmanager
def _plug_in_pieces(settings: Settings, folder: Path, sms: int) -> Iterator[Pieces]:
    from costmodel.integrations.tvm import tuning_options

    options = tuning_options(folder / TUNED, sms=sms, kind=settings.kind, model=settings.model)
    (folder / PLATFORM).write_bytes(msgspec.json.encode(options["runner"].platform))
    try:
        yield options
    finally:
        options["runner"].close()
        options["builder"].close()


def _plug_in_database(folder: Path) -> Any:
    from costmodel.integrations.tvm import Database

    platform = msgspec.json.decode((folder / PLATFORM).read_bytes(), type=Platform)
    return Database(folder / TUNED, platform)
