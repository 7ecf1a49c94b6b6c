"""Twelve functions of which nothing is known: recorded kernels, and formulas whose best is known."""

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from costmodel.dataset import read_files
from costmodel.records import Config
from costmodel.search import DeclaredSpace, Pool

Decisions = Mapping[str, Any]

RECORDED = {
    "convolution, RTX 2080 Ti": "single-team/convolution/RTX_2080_Ti",
    "dedispersion, A4000": "hub/dedispersion_milo/A4000",
    "GEMM, RTX 3090": "single-team/gemm/RTX_3090",
    "convolution, MI250X": "hub/convolution_milo/MI250X",
}


@dataclass(frozen=True)
class Landscape:
    """A function to minimise.

    Attributes:
        space: Its parameters.
        time: Gives the value of a config, above 0; None where it fails.
        best: The smallest value.
        constraints: Each gives a number of a config, which may not be above 0; told after the trial.
        is_recorded: Whether a config exists; a proposal that does not is not counted as an evaluation.
        pool: The configs that exist; None where all do.
    """

    space: DeclaredSpace
    time: Callable[[Decisions], float | None]
    best: float
    constraints: Mapping[str, Callable[[Decisions], float]] = field(default_factory=dict)
    is_recorded: Callable[[Decisions], bool] = lambda _: True
    pool: Pool | None = None

    def is_feasible(self, config: Decisions) -> bool:
        """Whether a config keeps all constraints."""
        return all(constraint(config) <= 0.0 for constraint in self.constraints.values())


def landscapes(public_data: Path) -> dict[str, Callable[[], Landscape]]:
    """Makers of the landscapes by name; the recorded ones only where their files are.

    Args:
        public_data: Folder of Kernel Tuner's caches, as ``<suite>/<kernel>/<device>.json.gz``.
    """
    files = {name: public_data / f"{file}.json.gz" for name, file in RECORDED.items()}
    recorded = {
        name: lambda name=name, file=file: _recorded(name, file)
        for name, file in files.items()
        if file.is_file()
    }
    return recorded | {
        "Hartmann 3 on a grid": lambda: _hartmann("hartmann-3", _A3, _P3, values=24),
        "Hartmann 6 on a grid": lambda: _hartmann("hartmann-6", _A6, _P6, values=8),
        "Ackley 5": _ackley,
        "Branin, mixed": _mixed_branin,
        "tiles, some fail": lambda: _tiles("tiles-failing", fails=True),
        "training, some fails": _training,
        "tiles, constrained": lambda: _tiles("tiles-constrained", fails=False),
        "Branin, constrained": _constrained_branin,
    }


def _recorded(name: str, file: Path) -> Landscape:
    """Measured kernels; a parameter is the rank of its value among those that were measured."""
    dataset = read_files([file])
    configs = [dataset.candidates[i].config.decisions for i in dataset.rows["candidate"]]
    values = {key: sorted({config[key] for config in configs}) for key in configs[0]}
    varying = {key: each for key, each in values.items() if len(each) > 1}
    latency_s = {
        tuple(varying[key].index(config[key]) for key in varying): float(seconds)
        for config, seconds in zip(configs, dataset.rows["latency_s"], strict=True)
    }

    def key_of(config: Decisions) -> tuple[int, ...]:
        return tuple(config[key] for key in varying)

    def time(config: Decisions) -> float | None:
        seconds = latency_s[key_of(config)]
        return seconds if math.isfinite(seconds) else None

    def is_recorded(config: Decisions) -> bool:
        return key_of(config) in latency_s

    parameters = {key: IntDistribution(0, len(each) - 1) for key, each in varying.items()}
    space = DeclaredSpace(name, parameters, constraints=[is_recorded])
    ranks = [Config(dict(zip(varying, key, strict=True))) for key in latency_s]
    pool = Pool([space.candidate(config) for config in ranks], *space.platforms)
    return Landscape(space, time, min(latency_s.values()), is_recorded=is_recorded, pool=pool)


# Dixon and Szego, "The global optimization problem: an introduction", 1978.
_ALPHA = np.array([1.0, 1.2, 3.0, 3.2])
_A3 = np.array([[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
_P3 = 1e-4 * np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]])
_A6 = np.array(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)
_P6 = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def _hartmann(name: str, A: np.ndarray, P: np.ndarray, values: int) -> Landscape:
    """Hartmann's function as the log of the value, each variable one of so many evenly spaced ones."""
    variables = [f"x{i}" for i in range(A.shape[1])]

    def log_values(X: np.ndarray) -> np.ndarray:
        return -np.exp(-(A * (X[:, None] - P) ** 2).sum(axis=2)) @ _ALPHA

    def time(config: Decisions) -> float:
        point = np.array([[config[name] for name in variables]]) / (values - 1)
        return float(np.exp(log_values(point)[0]))

    grid = np.array(list(itertools.product(np.linspace(0, 1, values), repeat=len(variables))))
    space = DeclaredSpace(name, {variable: IntDistribution(0, values - 1) for variable in variables})
    return Landscape(space, time, float(np.exp(log_values(grid).min())))


def _ackley() -> Landscape:
    """Ackley's function above 1, away from the centre."""
    variables = [f"x{i}" for i in range(5)]

    def time(config: Decisions) -> float:
        x = np.array([config[name] for name in variables]) - 3.3
        bowl = 20.0 * math.exp(-0.2 * math.sqrt(np.square(x).mean()))
        return 21.0 + math.e - bowl - math.exp(np.cos(2.0 * math.pi * x).mean())

    space = DeclaredSpace("ackley-5", {name: FloatDistribution(-32.768, 32.768) for name in variables})
    return Landscape(space, time, 1.0)


def _branin(x: np.ndarray | float, y: np.ndarray | float) -> np.ndarray | float:
    """Branin's function above 2, for x in [-5, 10] and y in [0, 15]."""
    valley = y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6
    return valley**2 + 10 * (1 - 1 / (8 * math.pi)) * np.cos(x) + 12


def _mixed_branin() -> Landscape:
    """Branin's function of a float and an integer, mirrored or lifted by a category."""
    lift = {"plain": 0.0, "mirrored": 15.0, "lifted": 30.0}

    def time(config: Decisions) -> float:
        x, y = config["x"], config["y"]
        x, y = (5 - x, 15 - y) if config["kind"] == "mirrored" else (x, y)
        return float(lift[config["kind"]] + _branin(x, y))

    parameters = {
        "kind": CategoricalDistribution(list(lift)),
        "x": FloatDistribution(-5, 10),
        "y": IntDistribution(0, 15),
    }
    x, y = np.meshgrid(np.linspace(-5, 10, 15_001), np.arange(16))
    return Landscape(DeclaredSpace("branin-mixed", parameters), time, float(_branin(x, y).min()))


def _constrained_branin() -> Landscape:
    """Branin's function within a disc."""

    def outside(x: np.ndarray | float, y: np.ndarray | float) -> np.ndarray | float:
        return (x - 2.5) ** 2 + (y - 7.5) ** 2 - 30.0

    x, y = np.meshgrid(np.linspace(-5, 10, 1501), np.linspace(0, 15, 1501))
    space = DeclaredSpace("branin-disc", {"x": FloatDistribution(-5, 10), "y": FloatDistribution(0, 15)})
    return Landscape(
        space,
        lambda config: float(_branin(config["x"], config["y"])),
        float(_branin(x, y)[outside(x, y) <= 0].min()),
        {"disc": lambda config: float(outside(config["x"], config["y"]))},
    )


def _tiles(name: str, *, fails: bool) -> Landscape:
    """Tiles of a matrix product: what does not fit into an SM fails, or breaks a constraint."""
    sizes = [4, 8, 16, 32, 64, 128, 256]
    choices: dict[str, list[Any]] = {
        "m": sizes,
        "n": sizes,
        "k": [2, 4, 8, 16, 32, 64, 128],
        "warps": [1, 2, 4, 8, 16],
        "stages": [1, 2, 3, 4, 5, 6],
        "swizzle": [False, True],
    }
    constraints = {
        "shared memory": lambda c: c["stages"] * (c["m"] + c["n"]) * c["k"] / 512 - 48.0,
        "registers": lambda c: c["m"] * c["n"] / (32 * c["warps"]) - 255.0,
    }

    def seconds(c: Decisions) -> float:
        blocks = math.ceil(2048 / c["m"]) * math.ceil(2048 / c["n"])
        outputs, per_thread = c["m"] * c["n"], c["m"] * c["n"] / (32 * c["warps"])
        work = math.ceil(blocks / 108) * outputs * (1.0 + 8.0 * (c["m"] + c["n"]) / outputs)
        occupancy = 1.0 + 0.12 * abs(math.log2(32 * c["warps"] / max(32.0, outputs / 64)))
        pipeline = (1.0 + 0.5 / c["stages"] + 0.02 * c["stages"]) * (1.0 + 4.0 / c["k"] + c["k"] / 1024)
        spills = 1.0 + max(0.0, per_thread - 128.0) / 64
        return 3e-9 * work * occupancy * pipeline * spills * (0.93 if c["swizzle"] else 1.0)

    def fits(config: Decisions) -> bool:
        return all(constraint(config) <= 0.0 for constraint in constraints.values())

    every = (dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values()))
    best = min(seconds(config) for config in every if fits(config))
    space = DeclaredSpace(name, {key: CategoricalDistribution(each) for key, each in choices.items()})
    if fails:
        return Landscape(space, lambda config: seconds(config) if fits(config) else None, best)
    return Landscape(space, seconds, best, constraints)


def _training() -> Landscape:
    """A loss over a rate, a batch and a decay, all on logarithmic scales; large rates diverge."""

    def time(config: Decisions) -> float | None:
        rate, batch, decay = (math.log10(config[name]) for name in ("rate", "batch", "decay"))
        if rate + batch > math.log10(2.0) or (decay > -2.0 and rate > -2.0):
            return None
        return 1.0 + (rate + 2.2) ** 2 + 1.6 * (batch - 2.3) ** 2 + 0.2 * (decay + 4.0) ** 2

    parameters = {
        "rate": FloatDistribution(1e-5, 1e-1, log=True),
        "batch": IntDistribution(1, 512, log=True),
        "decay": FloatDistribution(1e-6, 1e-1, log=True),
    }
    candidates = itertools.product(np.logspace(-5, -1, 2001), range(1, 513))
    values = (time({"rate": float(rate), "batch": batch, "decay": 1e-4}) for rate, batch in candidates)
    best = min(value for value in values if value is not None)
    return Landscape(DeclaredSpace("training", parameters), time, best)
