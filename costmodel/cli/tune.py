"""``costmodel tune``: find the kernel to run for the SMs that it will have."""

import difflib
import logging
from contextlib import suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.cli._output import DEFAULT_LEARNER, JsonOption, console, progress, write_json
from costmodel.errors import CostModelError

if TYPE_CHECKING:
    from costmodel.collect import CpuRunner, CudaRunner, ReplayRunner
    from costmodel.dataset import Dataset
    from costmodel.records import Platform
    from costmodel.search import BudgetCurve, ModelSampler, SearchSpace, TuneResult
    from costmodel.spaces import TargetKind
    from costmodel.transfer import TransferModel

    AnyRunner = ReplayRunner | CudaRunner | CpuRunner

_PLOT_BUDGETS = (1, 2, 4, 8, 16, 32, 64)


class RunnerName(StrEnum):
    """What measures."""

    REPLAY = "replay"
    CUDA = "cuda"
    CPU = "cpu"


def tune(
    workload: Annotated[
        str, typer.Argument(help="Name of a workload, such as matmul-m128-n768-k3072.", show_default=False)
    ],
    *,
    sms: Annotated[
        int | None,
        typer.Option(
            help="SMs that the kernel will have, threads on a CPU; the whole device if not given.",
            show_default=False,
        ),
    ] = None,
    runner: Annotated[RunnerName, typer.Option(help="What measures.")] = RunnerName.REPLAY,
    trials: Annotated[int, typer.Option(min=1, help="Candidates to measure.")] = 16,
    dataset: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Dataset to learn from, and to replay. If not given, the one that ships; for a CPU none.",
            show_default=False,
        ),
    ] = None,
    learner: Annotated[str, typer.Option(help="Learner to train on the dataset.")] = DEFAULT_LEARNER,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Trained model to use instead of a learner.", show_default=False),
    ] = None,
    screened: Annotated[
        int,
        typer.Option(
            min=1,
            help="Configs to draw and screen at a time, without building any: a second for 50,000, so that "
            "there is no need for a small random pool. A replay screens all that it holds.",
        ),
    ] = 50_000,
    study: Annotated[
        str | None,
        typer.Option(
            metavar="FILE_OR_URL",
            help="Keep the search here and go on with it where it stopped; several processes may share it. A "
            "file that ends in .log or .journal, or in .db for SQLite, or a URL such as "
            "postgresql://host/name.",
            show_default=False,
        ),
    ] = None,
    stop_gain: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Stop when the next measurement is expected to gain less than this, such as 1%.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="PNG of latency over SM budgets. A replay draws out/tune-WORKLOAD-SMS.png if not given; a "
            "device measures more for it, so it draws only if given.",
            show_default=False,
        ),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Find the kernel to run for the SMs that it will have, measuring only a shortlist.

    A model that learned from other workloads ranks all candidates, and each measurement sharpens it. From the
    dataset it learns of every workload but the one that is tuned.

    Examples:
    - `costmodel tune matmul-m16-n1024-k1024 --sms 32` replays recorded measurements: no GPU is needed.
    - `costmodel tune matmul-m64-n2304-k768 --sms 32 --runner cuda --plot out/tune.png` measures on this GPU.
    - `costmodel tune matmul-m64-n64-k64 --sms 1 --runner cpu --study out/cpu.db` tunes for one CPU thread.
    """
    from costmodel.cli._tune_report import as_json, draw, print_report
    from costmodel.dataset import load_dataset, shipped_dataset
    from costmodel.search import ModelSampler

    gain = None if stop_gain is None else _share(stop_gain)
    logging.getLogger("optuna").setLevel(logging.WARNING)  # the progress bar says it
    source = dataset or (None if runner is RunnerName.CPU else shipped_dataset())
    data = load_dataset(source) if source else None
    with _open_runner(runner, workload, data) as opened:
        console.print(opened.description, soft_wrap=True, highlight=False)
        platform = opened.platform(sms)
        space = _open_space(opened, platform, workload)
        if model:
            fitted, knowledge = _load(model, workload if runner is RunnerName.REPLAY else None)
        elif source and data:
            fitted, knowledge = _train(data, source, workload, learner, seed)
        else:
            fitted, knowledge = None, {"model": "scratch", "trained_on": "nothing"}
        sampler = ModelSampler(space, fitted, knowledge=knowledge, screened=screened, seed=seed)
        result = _search(opened, sampler, trials, study, gain)
        curves = _curves(opened, sampler, result, trials, measure=plot is not None)
    print_report(result, curves)
    write_json(json, as_json(result, curves))
    if curves:
        path = plot or Path("out") / f"tune-{workload}-{platform.sms_granted}sms.png"
        draw(path, result, curves)


def _open_runner(name: RunnerName, workload: str, data: "Dataset | None") -> "AnyRunner":
    """The runner; a replay of what the dataset holds of the workload.

    Raises:
        CostModelError: The dataset does not hold the workload, or the device cannot be opened.
    """
    from costmodel.collect import CpuRunner, CudaRunner, ReplayRunner

    if name is RunnerName.CUDA:
        return CudaRunner()
    if name is RunnerName.CPU:
        return CpuRunner()
    assert data is not None
    known = sorted({candidate.workload.name for candidate in data.candidates})
    if workload not in known:
        near = difflib.get_close_matches(workload, known, n=3, cutoff=0.4)
        raise CostModelError(
            f"A replay can only tune workloads that were recorded, but got {workload!r}. "
            + (f"The nearest are {', '.join(near)}." if near else f"Recorded are {', '.join(known)}.")
        )
    return ReplayRunner(data.to_measurements(workload))


def _open_space(runner: "AnyRunner", platform: "Platform", workload: str) -> "SearchSpace":
    """What a replay recorded on the platform; else the workload's whole design space.

    Raises:
        CostModelError: Nothing was recorded, or the name is not that of a workload.
    """
    from costmodel.collect import ReplayRunner
    from costmodel.records import Workload
    from costmodel.search import Pool, ScheduleSpace
    from costmodel.spaces import open_space

    if isinstance(runner, ReplayRunner):
        return Pool(runner.recorded(platform), platform)
    kind: TargetKind = "cpu" if platform.device.kind == "cpu" else "cuda"
    with console.status("Opening the design space"):
        return ScheduleSpace(open_space(Workload.parse(workload), kind), platform)


def _share(text: str) -> float:
    """A share such as ``1%`` or ``0.01``.

    Raises:
        CostModelError: It is none, or not between 0 and 1.
    """
    number, percent, rest = text.partition("%")
    with suppress(ValueError):
        share = float(number) / (100.0 if percent else 1.0)
        if not rest and 0.0 < share < 1.0:
            return share
    raise CostModelError(f"--stop-gain must be a share above 0 and below 1, such as 1%, but got {text!r}.")


def _load(path: Path, left_out: str | None) -> "tuple[TransferModel, dict[str, str]]":
    """A model from a file, and what it is.

    Raises:
        CostModelError: It cannot be read, is no transfer model, expects other columns, or learned from the
            workload to leave out.
    """
    from costmodel.features import COLUMNS
    from costmodel.transfer import TransferModel, load_model

    loaded = load_model(path)
    if loaded.metadata.get("columns") != [column.name for column in COLUMNS]:
        raise CostModelError(
            f"{path} must be a model of this version's {len(COLUMNS)} feature columns, but it is of others. "
            "Train it again with `costmodel train`."
        )
    if left_out in loaded.metadata["workloads"]:
        raise CostModelError(
            f"A replay of {left_out} must have a model that never saw it, but {path} learned from it. "
            f"Train one with `costmodel train --hold-out {left_out}`, or leave --model out."
        )
    if not isinstance(loaded.model, TransferModel):
        raise CostModelError(f"{path} must hold a transfer model, but holds {type(loaded.model).__name__}.")
    return loaded.model, {
        "model": f"{path} ({loaded.metadata['learner']})",
        "trained_on": f"{len(loaded.metadata['workloads'])} workloads",
        "dataset_sha256": loaded.metadata["dataset"],
    }


def _train(
    data: "Dataset", source: Path, workload: str, learner: str, seed: int
) -> "tuple[TransferModel, dict[str, str]]":
    """A model of what the dataset knows of other workloads, and what it is."""
    from costmodel.dataset import dataset_hash
    from costmodel.evaluation import train
    from costmodel.transfer import make_model

    held_out = {candidate.workload.name for candidate in data.candidates} & {workload}
    with console.status(f"Learning from {source}"):
        trained = train(data, partial(make_model, learner, seed=seed), hold_out=sorted(held_out))
    return trained.model, {
        "model": learner,
        "trained_on": f"{len(trained.workloads)} other workloads of {source}",
        "dataset_sha256": dataset_hash(source),
    }


def _search(
    runner: "AnyRunner",
    sampler: "ModelSampler",
    trials: int,
    place: str | None = None,
    stop_gain: float | None = None,
) -> "TuneResult":
    """Tune, with a progress bar; in a study that is kept at a place, if one is given."""
    from costmodel.search import open_study
    from costmodel.search import tune as search

    study = open_study(place, f"tune-{sampler.space.space_id}")
    with progress() as bar:
        total = min(trials, sampler.space.size or trials)
        task = bar.add_task(f"measuring on {sampler.space.platform.sms_granted}", total=total)
        return search(
            runner,
            sampler,
            trials,
            study=study,
            stop_gain=stop_gain,
            on_trial=lambda _: bar.advance(task),
        )


def _curves(
    runner: "AnyRunner", sampler: "ModelSampler", result: "TuneResult", trials: int, *, measure: bool
) -> "list[BudgetCurve]":
    """Latency over SM budgets: what a replay recorded, or what a device measures if that is wanted.

    The whole-device choice of a device is what the same search finds there.
    """
    from costmodel.collect import ReplayRunner
    from costmodel.search import CHOSEN, WHOLE_CHOICE, ModelSampler, measured_curve, recorded_curves

    if isinstance(runner, ReplayRunner):
        return recorded_curves(runner, result.best.candidate)
    if not measure:
        return []
    space = sampler.space.on(runner.platform())
    again = ModelSampler(space, sampler.model, screened=sampler.screened, seed=sampler.seed)
    whole = _search(runner, again, trials).best.candidate
    platforms = {space.platform.sms_granted: space.platform, result.platform.sms_granted: result.platform}
    for budget in _PLOT_BUDGETS:
        with suppress(CostModelError):  # a budget that cannot be granted here
            platform = runner.platform(budget)
            platforms.setdefault(platform.sms_granted, platform)
    chosen = {WHOLE_CHOICE: whole, CHOSEN: result.best.candidate}
    return [measured_curve(runner, label, c, list(platforms.values())) for label, c in chosen.items()]
