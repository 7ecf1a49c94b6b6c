"""Simulations: how long jobs take on some builders and GPUs, and what they wait for."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from itertools import groupby, product
from typing import TYPE_CHECKING, Any

from numpy.random import default_rng

from costmodel.arguments import check_seed, check_whole
from costmodel.errors import MissingExtraError
from costmodel.service._stage_times import StageTimes

if TYPE_CHECKING:
    from simpy import Resource

    from costmodel.report._figures import NotebookFigure
    from costmodel.service._machines import Machines, Process
    from costmodel.service._stage_times import CampaignWork, TuneWork


_JOBS = "jobs"
# A part that is taken for less than this share of the time is not what holds up the rest.
_BUSY = 0.8
# What all builders reach, fewer should.
_ENOUGH = 0.95


@dataclass(frozen=True)
class Simulated:
    """Result of a simulation.

    Attributes:
        builders: Number of builder cores.
        gpus: Number of GPUs.
        lanes: Number of kernels that each GPU measures at once.
        kernels: Number of kernels that were built and measured.
        seconds: Time until the last job was done, in seconds.
        builder_use: Fraction of the builder cores' time spent building.
        gpu_use: Fraction of the GPUs' time, in all their lanes, spent measuring.
        engine_use: Fraction of the time in which the engine gave out jobs.
    """

    builders: int
    gpus: int
    lanes: int
    kernels: int
    seconds: float
    builder_use: float
    gpu_use: float
    engine_use: float

    @property
    def kernels_per_hour(self) -> float:
        """Number of kernels measured per hour."""
        return 3600.0 * self.kernels / self.seconds if self.seconds else float("inf")

    @property
    def limit(self) -> str:
        """The bottleneck: ``builders``, ``GPUs`` or ``engine``, if busy for at least four fifths of the time.

        Otherwise ``jobs``: jobs wait for their own results before they propose more.
        """
        uses = {"builders": self.builder_use, "GPUs": self.gpu_use, "engine": self.engine_use}
        busiest = max(uses, key=lambda name: uses[name])
        return busiest if uses[busiest] >= _BUSY else _JOBS

    def to_dict(self) -> dict[str, Any]:
        """Return all fields and derived quantities, with units in their names."""
        return {**asdict(self), "kernels_per_hour": self.kernels_per_hour, "limit": self.limit}


def simulate(  # noqa: PLR0913 (settings, all but three with defaults)
    jobs: "Sequence[TuneWork | CampaignWork]",
    times: StageTimes,
    *,
    builders: int,
    gpus: int = 1,
    lanes: int = 1,
    at_once: int | None = None,
    seed: int = 0,
) -> Simulated:
    """Simulate jobs that share builders and GPUs.

    Builders build in order of request, GPUs measure in order of completed builds, and each workload keeps its
    GPU. The engine gives out one job after the other. Jobs propose at the same time, on cores that build
    nothing. The same seed draws the same seconds for the same jobs, whatever they run on.

    Args:
        jobs: The jobs, in the order in which they begin.
        times: Times of the stages.
        builders: Number of builder cores.
        gpus: Number of GPUs.
        lanes: Number of kernels that each GPU measures at once; ``times`` must contain their slowdown.
        at_once: Number of jobs that run at once; 1 runs them one after the other. Default: all.
        seed: Seed of the draws.

    Raises:
        CostModelError: If SimPy is not installed, a number is not positive, or the slowdown for this number
            of lanes is unknown.

    Example:
        >>> times = StageTimes(source="made up", build_s=(1.0,), measure_s=(0.1,))
        >>> simulate([CampaignWork(1, 8, 1)], times, builders=4).seconds
        2.4
    """
    check_seed(seed)
    _check_positive(jobs=len(jobs), builders=builders, gpus=gpus, lanes=lanes, at_once=at_once or 1)
    if find_spec("simpy") is None:
        raise MissingExtraError("Planning capacity", "capacity")
    import simpy

    from costmodel.service._machines import Machines

    machines = Machines(times, builders, gpus, lanes)
    turns = simpy.Resource(machines.env, at_once or len(jobs))
    for number, job in enumerate(jobs):
        run = job.run(machines, times, default_rng([seed, number]))
        machines.env.process(_in_turn(turns, run))
    machines.env.run()
    return _told(machines, sum(job.kernels for job in jobs), lanes)


def simulate_grid(  # noqa: PLR0913 (as simulate)
    jobs: "Sequence[TuneWork | CampaignWork]",
    times: StageTimes,
    *,
    builders: Sequence[int],
    gpus: Sequence[int] = (1,),
    lanes: int = 1,
    at_once: int | None = None,
    seed: int = 0,
) -> list[Simulated]:
    """Simulate the same jobs on each number of builders with each number of GPUs; see ``simulate``."""
    return [
        simulate(jobs, times, builders=cores, gpus=devices, lanes=lanes, at_once=at_once, seed=seed)
        for devices, cores in product(gpus, builders)
    ]


def enough_builders(found: Sequence[Simulated]) -> int:
    """Return the fewest builders that reach 95% of the highest number of kernels per hour.

    Args:
        found: One or more simulations that differ in the number of builders only.
    """
    wanted = _ENOUGH * max(one.kernels_per_hour for one in found)
    return min(one.builders for one in found if one.kernels_per_hour >= wanted)


def _in_turn(turns: "Resource", run: "Process") -> "Process":
    with turns.request() as turn:
        yield turn
        yield from run


def _told(machines: "Machines", kernels: int, lanes: int) -> Simulated:
    seconds = machines.env.now
    use = {
        name: machines.busy_s[name] / (places * seconds) if seconds else 0.0
        for name, places in machines.places.items()
    }
    return Simulated(
        builders=machines.places["builders"],
        gpus=len(machines.gpus),
        lanes=lanes,
        kernels=kernels,
        seconds=seconds,
        builder_use=use["builders"],
        gpu_use=use["GPUs"],
        engine_use=use["engine"],
    )


def _check_positive(**numbers: int) -> None:
    for name, number in numbers.items():
        check_whole(name, number, 1)


_MARKERS = {"builders": "o", "GPUs": "s", "engine": "^", "jobs": "x"}


def plot_throughput(found: Sequence[Simulated], title: str = "") -> "NotebookFigure":
    """Plot kernels per hour over builders; markers show the bottleneck.

    Args:
        found: Simulations, as returned by ``simulate_grid``.
        title: Title of the plot.
    """
    from matplotlib.lines import Line2D

    from costmodel.report._figures import NotebookFigure

    figure = NotebookFigure(figsize=(7.5, 4.8), layout="constrained")
    axes = figure.subplots()
    for gpus, line in groupby(found, key=lambda one: one.gpus):
        points = list(line)
        rates = [one.kernels_per_hour for one in points]
        builders = [one.builders for one in points]
        (drawn,) = axes.plot(builders, rates, linewidth=1.2, label=f"{gpus} GPU{'s' if gpus > 1 else ''}")
        for x, y, one in zip(builders, rates, points, strict=True):
            axes.plot(x, y, marker=_MARKERS[one.limit], color=drawn.get_color(), markersize=5)
    axes.set(
        xscale="log", yscale="log", xlabel="builder cores", ylabel="kernels measured an hour", title=title
    )
    axes.grid(which="both", alpha=0.2)
    lines = axes.legend(loc="upper left", frameon=False)
    axes.add_artist(lines)
    limits = {one.limit for one in found}
    handles = [
        Line2D([], [], linestyle="", marker=marker, color="0.3", label=name)
        for name, marker in _MARKERS.items()
        if name in limits
    ]
    axes.legend(handles=handles, title="held up by", loc="lower right", frameon=False)
    return figure
