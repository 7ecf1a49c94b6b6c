"""Capacity planning: simulate, from measured times, what more builders and more GPUs would do for tuning."""

from costmodel.capacity._jobs import Campaign, Tune
from costmodel.capacity._picture import plot_throughput
from costmodel.capacity._simulate import Simulated, enough_builders, simulate, simulate_grid
from costmodel.capacity._times import StageTimes, load_times

__all__ = [
    "Campaign",
    "Simulated",
    "StageTimes",
    "Tune",
    "enough_builders",
    "load_times",
    "plot_throughput",
    "simulate",
    "simulate_grid",
]
