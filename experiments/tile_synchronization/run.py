"""Savings of synchronised tiles, measured by cuSync and predicted by the planner. See README.md here."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from cases import POLICIES, SMS, TABLES, WAVE_BOUND, Case, Launch, read_table, same_gpu

from costmodel.arrays import FloatArray
from costmodel.files import write_json
from costmodel.planner import Overheads, StridedSync, TiledKernel, predict_saving
from costmodel.planner._tile_schedule import RowSync, SyncPolicy, TileSync

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options


@dataclass(frozen=True)
class TileTime:
    """Microseconds of a block: what its multiplications take on an SM that it shares, and fixed parts.

    Attributes:
        rate: Microseconds of an SM for a million multiplications.
        block: For any block.
        split: More for a block of a split reduction.
    """

    rate: float
    block: float
    split: float

    def __call__(self, launch: Launch, reduction: int, gpu: str) -> float:
        return float(np.dot((self.rate, self.block, self.split), block_terms(launch, reduction, gpu)))


@dataclass(frozen=True)
class Costs:
    """Constants of synchronisation in microseconds, and the time of a block overlapped over that alone."""

    wait: float = 0.0
    block: float = 0.0
    gap: float = 0.0
    speed: float = 1.0


def main() -> None:
    options = parse()
    cases = {table: read_table(options.data, table) for table in TABLES}
    waves = {table: wave_errors(cases, table) for table in TABLES}
    times = {table: fit_tile_time(cases[same_gpu(table)]) for table in TABLES}
    ways = {name: way(cases, times, options) for name, way in WAYS.items()}
    result = {
        "waves": waves,
        "savings": {name: summary(cases, found) for name, (found, _) in ways.items()},
        "constants": {name: constants for name, (_, constants) in ways.items() if constants},
        "beyond_bound": {table: beyond_bound(cases[table], times[table]) for table in TABLES},
    }
    print(pd.DataFrame(waves).T.round(2).to_string())
    for name, found in result["savings"].items():
        print(f"\n{name}\n{pd.DataFrame(found).T.round(2).to_string()}")
    if options.json:
        write_json(options.json, result)
    if options.plot:
        draw(cases, ways["costs of the same GPU's other table"][0], options.plot)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with cuSync's tables")
    parser.add_argument("--waits-us", type=float, nargs="+", help="costs of a wait to choose from")
    parser.add_argument("--blocks-us", type=float, nargs="+", help="costs of a block to choose from")
    parser.add_argument("--gaps-us", type=float, nargs="+", help="gaps between two kernels to choose from")
    parser.add_argument(
        "--speeds", type=float, nargs="+", help="times of a block over that alone to choose from"
    )
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    parser.add_argument("--plot", type=Path, help="where to draw them, as PNG")
    return parse_options(parser, __file__, argv)


# Waves: the time of a kernel alone


def block_terms(launch: Launch, reduction: int, gpu: str) -> tuple[float, float, float]:
    """What the constants of a ``TileTime`` are multiplied by."""
    work = launch.rows * launch.columns * reduction / launch.splits * launch.blocks_per_sm(gpu)
    return work / 1e6, 1.0, float(launch.splits > 1)


def kernels_alone(case: Case) -> list[tuple[Launch, int, TiledKernel, float]]:
    """Launch, reduction, kernel and microseconds of both kernels in a stream."""
    found = []
    for launch, (columns, reduction), time in zip(
        case.launches["stream"], case.layer, case.alone, strict=True
    ):
        grid = launch.grid(case.tokens, columns)
        kernel = TiledKernel.from_duration(grid, launch.blocks_per_sm(case.gpu), SMS[case.gpu], time)
        found.append((launch, reduction, kernel, time))
    return found


def fit_tile_time(cases: Sequence[Case]) -> TileTime:
    """Constants of at least 0 with the least relative squares of kernels that are bound by waves.

    Rows whose runs spread by over 1 % are left out.
    """
    from scipy.optimize import nnls

    terms = [
        np.array(block_terms(launch, reduction, case.gpu)) / kernel.tile_s
        for case in cases
        if case.tokens >= WAVE_BOUND and case.spread < 0.01 * case.total
        for launch, reduction, kernel, _ in kernels_alone(case)
    ]
    scale = np.maximum(np.max(terms, axis=0), 1e-12)
    found, _ = nnls(np.array(terms) / scale, np.ones(len(terms)))
    return TileTime(*(found / scale).tolist())


def wave_errors(cases: dict[str, list[Case]], table: str) -> dict[str, float]:
    """Median absolute error in % of a kernel's time alone, from ``WAVE_BOUND`` tokens on.

    The constants of a block's time come from the table's other rows, or from the other table of the GPU.
    """
    rows = [case for case in cases[table] if case.tokens >= WAVE_BOUND]
    errors: dict[str, list[float]] = {"ceil": [], "fractional": [], "ceil, other table": []}
    other = fit_tile_time(cases[same_gpu(table)])
    for case in rows:
        rest = fit_tile_time([row for row in rows if row is not case])
        for launch, reduction, kernel, time in kernels_alone(case):
            slots = SMS[case.gpu] * kernel.blocks_per_sm
            block = rest(launch, reduction, case.gpu)
            errors["ceil"].append(kernel.waves(SMS[case.gpu]) * block / time - 1)
            errors["fractional"].append(kernel.tiles / slots * block / time - 1)
            block = other(launch, reduction, case.gpu)
            errors["ceil, other table"].append(kernel.waves(SMS[case.gpu]) * block / time - 1)
    return {name: float(100 * np.median(np.abs(each))) for name, each in errors.items()}


# Savings


def kernels_of(case: Case, policy: str, time: TileTime, costs: Costs) -> tuple[TiledKernel, TiledKernel]:
    """Both kernels as launched for a policy, in microseconds.

    Their time alone is the measured one, the consumer's without the gap. Where a policy has another tile, the
    block's time changes as ``time`` says; kernels that only read weights take as long with any tile.
    """
    found = []
    for (launch, reduction, alone, _), new, (columns, _), gap in zip(
        kernels_alone(case), case.launches[policy], case.layer, (0.0, costs.gap), strict=True
    ):
        grid, slots = new.grid(case.tokens, columns), new.blocks_per_sm(case.gpu)
        duration = alone.duration_s(SMS[case.gpu]) - gap
        kernel = TiledKernel.from_duration(grid, slots, SMS[case.gpu], duration)
        if case.tokens >= WAVE_BOUND:
            ratio = time(new, reduction, case.gpu) / time(launch, reduction, case.gpu) * costs.speed
            kernel = replace(kernel, tile_s=duration / alone.waves(SMS[case.gpu]) * ratio)
        found.append(kernel)
    return found[0], found[1]


def policy_of(case: Case, policy: str) -> SyncPolicy:
    """LLaMA's gate and value are columns of one product, which its tile policy waits for in pairs."""
    if policy == "row":
        return RowSync()
    return StridedSync(2) if "llama" in case.table else TileSync()


def predict(case: Case, time: TileTime, costs: Costs) -> FloatArray:
    """``(2,)`` points that row and tile should save. Kernels that fit on the GPU at once were launched
    without an order of tiles, which costs nothing."""
    overheads = (
        Overheads(block_s=costs.block, wait_s=costs.wait) if case.tokens >= WAVE_BOUND else Overheads()
    )
    took = [
        predict_saving(
            *kernels_of(case, policy, time, costs), SMS[case.gpu], policy_of(case, policy), overheads
        ).overlapped_s
        for policy in POLICIES
    ]
    return 100 * (1 - np.array(took) / sum(case.alone))


def fit_costs(
    cases: Sequence[Case], times: dict[str, TileTime], options: argparse.Namespace, speeds: Sequence[float]
) -> Costs:
    """First the wait, from the difference of tile and row, which share all else; then the rest."""
    measured = np.array([case.saved for case in cases])

    def predicted(costs: Costs) -> FloatArray:
        return np.array([predict(case, times[case.table], costs) for case in cases])

    def off_between(wait: float) -> float:
        found = predicted(Costs(wait, block=4.0, gap=2.0))
        return float(np.median(np.abs(np.diff(found - measured, axis=1))))

    wait = min(options.waits_us, key=off_between)
    choices = [Costs(wait, *rest) for rest in product(options.blocks_us, options.gaps_us, speeds)]
    return min(choices, key=lambda costs: float(np.abs(predicted(costs) - measured).mean()))


Predicted = dict[str, FloatArray]
Found = tuple[Predicted, dict[str, Any]]
Way = Callable[[dict[str, list[Case]], dict[str, TileTime], argparse.Namespace], Found]


def with_costs(learned_from: Callable[[str], list[str]], any_speed: bool = False) -> Way:
    """Predict with costs fitted on other tables."""

    def way(cases: dict[str, list[Case]], times: dict[str, TileTime], options: argparse.Namespace) -> Found:
        costs = {}
        for table in TABLES:
            rows = [case for other in learned_from(table) for case in cases[other]]
            costs[table] = fit_costs(rows, times, options, options.speeds if any_speed else [1.0])
        found = {
            table: np.array([predict(case, times[table], costs[table]) for case in cases[table]])
            for table in TABLES
        }
        return found, {table: vars(each) for table, each in costs.items()}

    return way


def free(cases: dict[str, list[Case]], times: dict[str, TileTime], _: argparse.Namespace) -> Found:
    """Synchronisation costs nothing."""
    return {
        table: np.array([predict(case, times[table], Costs()) for case in cases[table]]) for table in TABLES
    }, {}


def fractional(cases: dict[str, list[Case]], times: dict[str, TileTime], _: argparse.Namespace) -> Found:
    """The slots are never idle: the bound."""
    return {table: np.array([bound(case, times[table]) for case in cases[table]]) for table in TABLES}, {}


def constant(cases: dict[str, list[Case]], _: dict[str, TileTime], __: argparse.Namespace) -> Found:
    """The median saving of each policy in the other tables."""
    found = {}
    for table in TABLES:
        others = [case.saved for other in TABLES if other != table for case in cases[other]]
        found[table] = np.tile(np.median(others, axis=0), (len(cases[table]), 1))
    return found, {}


def nothing(cases: dict[str, list[Case]], _: dict[str, TileTime], __: argparse.Namespace) -> Found:
    """Less than nothing by a hair, so that the stream is named best."""
    return {table: np.full((len(cases[table]), 2), -1e-3) for table in TABLES}, {}


def bound(case: Case, time: TileTime) -> FloatArray:
    """``(2,)`` points above which no schedule of these blocks saves."""
    took = [
        predict_saving(*kernels_of(case, policy, time, Costs()), SMS[case.gpu]).bound_s for policy in POLICIES
    ]
    return 100 * (1 - np.array(took) / sum(case.alone))


WAYS: dict[str, Way] = {
    "costs of the same GPU's other table": with_costs(lambda table: [same_gpu(table)]),
    "and a speed of blocks": with_costs(lambda table: [same_gpu(table)], any_speed=True),
    "costs of the three other tables": with_costs(
        lambda table: [other for other in TABLES if other != table]
    ),
    "without costs": free,
    "fractional waves": fractional,
    "constant saving": constant,
    "no saving": nothing,
}


def best_policy(saved: FloatArray) -> str:
    """Row, tile or stream; of equals tile, then row."""
    row, tile = saved.round(6)
    if max(row, tile) < 0:
        return "stream"
    return "tile" if tile >= row else "row"


def summary(cases: dict[str, list[Case]], predicted: Predicted) -> dict[str, dict[str, float]]:
    """Errors in points over both policies, right signs and policies, of each table and of sets of rows."""
    rows = [
        (case, saved) for table in TABLES for case, saved in zip(cases[table], predicted[table], strict=True)
    ]
    groups = {table: [row for row in rows if row[0].table == table] for table in TABLES}
    groups["V100"] = [row for row in rows if row[0].gpu == "v100"]
    groups["A100"] = [row for row in rows if row[0].gpu == "a100"]
    groups["all, 512 tokens or more"] = [row for row in rows if row[0].tokens >= WAVE_BOUND]
    groups["all"] = rows
    return {name: scores(group) for name, group in groups.items()}


def scores(rows: Sequence[tuple[Case, FloatArray]]) -> dict[str, float]:
    measured = np.array([case.saved for case, _ in rows])
    predicted = np.array([saved for _, saved in rows])
    off = np.abs(predicted - measured)
    sign = np.sign(predicted.round(6)) == np.sign(measured)
    named = [best_policy(p) == best_policy(m) for p, m in zip(predicted, measured, strict=True)]
    return {
        "rows": len(rows),
        "median_error": float(np.median(off)),
        "mean_error": float(off.mean()),
        "right_sign": float(sign.mean()),
        "right_sign_above_1_point": float(sign[np.abs(measured) > 1].mean()),
        "best_policy": float(np.mean(named)),
    }


def beyond_bound(cases: Sequence[Case], time: TileTime) -> dict[str, float]:
    """Rows of which a policy saved more than blocks as long as alone can save, by over 1 point."""
    rows = [case for case in cases if case.tokens >= WAVE_BOUND]
    excess = [float(np.max(case.saved - bound(case, time))) for case in rows]
    return {"rows": len(rows), "beyond": sum(each > 1 for each in excess), "worst_points": max(excess)}


def draw(cases: dict[str, list[Case]], predicted: Predicted, path: Path) -> None:
    """A panel a table: points saved over tokens, measured and predicted."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7), layout="constrained")
    panels = figure.subplots(2, 2, sharey=True).ravel()
    for axes, table in zip(panels, TABLES, strict=True):
        tokens = [str(case.tokens) for case in cases[table]]
        measured = np.array([case.saved for case in cases[table]])
        for column, (policy, colour) in enumerate(zip(POLICIES, ("tab:blue", "tab:orange"), strict=True)):
            axes.plot(tokens, measured[:, column], "o", color=colour, label=f"{policy}, measured")
            axes.plot(tokens, predicted[table][:, column], "-", color=colour, label=f"{policy}, predicted")
        axes.axhline(0, color="grey", linewidth=0.8)
        axes.set_title(table)
        axes.tick_params(axis="x", rotation=90)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[2:]:
        axes.set_xlabel("tokens")
    for axes in panels[::2]:
        axes.set_ylabel("saved, % of both in a stream")
    panels[1].legend(fontsize=8)
    figure.suptitle("Two matrix products with synchronised tiles (constants from the GPU's other table)")
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
