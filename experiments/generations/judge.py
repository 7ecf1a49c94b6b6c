"""Judge latencies of library calls on GPUs of a generation that was left out, beside simpler rules."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import xgboost

sys.path.append(str(Path(__file__).parents[1]))
from collectives import COLLECTIVES, load_collectives
from kit.results import markdown_table, rounded, say
from options import parse_options
from study import OTHER_VENDOR, SETTINGS, Positions, Rows, add_options, fit_model, known_to

from costmodel.arrays import FloatArray
from costmodel.files import write_json
from costmodel.records._platform import Device
from costmodel.transfer._call_latency import CallModel

MEASURED = (0, 8, 32)
LEVEL, NORMAL = 0.9, 1.645


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument("--seeds", type=int, help="draws of the calls that are learned from and asked about")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the results are written")
    args = parse_options(parser, __file__, argv)
    found = [
        {"seed": seed, **row}
        for kind in args.kinds
        for seed in range(args.seeds)
        for row in judge_kind(kind, args.each, args.trees, args.draws, seed)
    ]
    keys = ["kind", "method", "generation"]
    over_seeds = pd.DataFrame(found).groupby(keys, sort=False)
    told = over_seeds[["error", "covered"]].mean().join(over_seeds["error"].std().rename("seeds_apart"))
    rows = told.astype(object).where(told.notna(), None).reset_index()
    if args.out:
        write_json(args.out, [rounded(row, 4) for row in rows.to_dict("records")])
    for kind, part in rows.groupby("kind", sort=False):
        order = [part[name].drop_duplicates() for name in ("method", "generation")]
        cells = part.assign(cell=[_cell(*each) for each in zip(part["error"], part["covered"], strict=True)])
        wide = cells.pivot(index="method", columns="generation", values="cell")
        wide = wide.reindex(index=order[0], columns=order[1]).fillna("")
        print(f"\n`{kind}`:\n")
        print(markdown_table(["", *wide.columns], wide.reset_index().to_numpy().tolist()))


def _cell(error: float | None, covered: float | None) -> str:
    """A median error, and in brackets how many latencies intervals hold, where there are any."""
    told = "" if error is None else f"{100 * error:.1f} %"
    return told if covered is None else f"{told} [{100 * covered:.0f} %]"


def judge_kind(kind: str, each: int, trees: int, draws: int, seed: int = 0) -> Iterator[dict[str, object]]:
    """Yield a row for each method and generation that is left out, or vendor."""
    rows = load_collectives(kind, each, seed) if kind in COLLECTIVES else Rows.load(kind, each, seed)
    generation = rows.table["generation"].to_numpy(str)
    every = sorted(set(generation) - {OTHER_VENDOR})
    pairs = {
        frozenset(pair): fit_model(rows, np.flatnonzero(~np.isin(generation, pair)), trees)
        for pair in combinations(every, 2)
    }
    alone = {
        each: fit_model(rows, np.flatnonzero(~np.isin(generation, [each, OTHER_VENDOR])), trees)
        for each in every
    }
    say(f"{kind}: {len(rows.table):,} calls, {len(pairs)} pairs of generations fitted")
    for left_out in sorted(set(generation)):
        is_learned = ~np.isin(generation, [left_out, OTHER_VENDOR])
        train, test = np.flatnonzero(is_learned), np.flatnonzero(generation == left_out)
        # Widths by generations that were left out of those that are left.
        if left_out == OTHER_VENDOR:
            model, inner = fit_model(rows, train, trees), alone
        else:
            model = alone[left_out]
            inner = {other: pairs[frozenset((left_out, other))] for other in every if other != left_out}
        model = replace(model, measured=np.array(MEASURED), widths=interval_widths(rows, inner, draws))
        test = known_to(model, rows, test)
        own = "taught half of its calls", _error(_own_errors(rows, train, test, trees)), float("nan")
        for name, error, covered in (*_judge(rows, model, train, test, draws), own):
            say(f"{kind}, {left_out}, {name}: {error:.3f} {covered:.3f}")
            yield {
                "kind": kind,
                "generation": left_out,
                "method": name,
                "error": error,
                "covered": covered,
                "calls": len(test),
            }


def interval_widths(rows: Rows, models: dict[str, CallModel], draws: int) -> FloatArray:
    """Widths that cover 90 % of generations that were left out, each of which weighs the same."""
    found = []
    for n in MEASURED:
        z = []
        for left_out, model in models.items():
            positions = known_to(model, rows, np.flatnonzero(rows.table["generation"] == left_out))
            unit = replace(model, measured=np.array([0]), widths=np.array([1.0]))
            z.append(np.concatenate([abs(at) for at, _ in _predictions(rows, unit, positions, n, draws)]))
        weights = np.concatenate([np.full(len(each), 1 / len(each)) for each in z])
        values = np.concatenate(z)
        order = np.argsort(values)
        share = np.cumsum(weights[order]) / weights.sum()
        found.append(values[order][np.searchsorted(share, LEVEL)])
    # Never more with more measurements, nor below those of the normal distribution that is fitted.
    return np.maximum(np.maximum.accumulate(np.array(found)[::-1])[::-1], NORMAL)


def _predictions(
    rows: Rows, model: CallModel, positions: Positions, n: int, draws: int
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield log errors in half widths, and log errors, of each device and draw of n measured calls."""
    rng = np.random.default_rng(n)
    for where, _ in rows.calls(positions):
        for _ in range(draws if n else 1):
            drawn = rng.choice(len(where), min(n, len(where) // 2), replace=False)
            rest = np.setdiff1d(np.arange(len(where)), drawn)
            measured = next(rows.calls(where[drawn]))[1] if n else None
            seconds = np.exp(rows.y[where[drawn]]) if n else None
            asked = next(rows.calls(where[rest]))[1]
            said = model.predict(asked, measured, seconds)
            error = rows.y[where[rest]] - np.log(said.latency_s)
            yield error / np.log(said.high_s / said.latency_s), error


def _judge(
    rows: Rows, model: CallModel, train: Positions, test: Positions, draws: int
) -> Iterator[tuple[str, float, float]]:
    for n in MEASURED:
        found = list(_predictions(rows, model, test, n, draws))
        errors = np.concatenate([error for _, error in found])
        covered = np.mean(np.abs(np.concatenate([at for at, _ in found])) <= 1)
        yield f"model, {n} measured", _error(errors), float(covered)
    for name, said in _baselines(rows, train, test):
        yield name, _error(rows.y[test] - said), float("nan")


def _own_errors(rows: Rows, train: Positions, test: Positions, trees: int) -> FloatArray:
    """Log errors on half of the calls of a model that learned the other half: what its form allows."""
    half = np.random.default_rng(0).permutation(test)[: len(test) // 2]
    model = fit_model(rows, np.concatenate([train, half]), trees)
    rest = np.setdiff1d(test, half)
    return np.concatenate([error for _, error in _predictions(rows, model, rest, 0, 1)])


def _error(log_errors: FloatArray) -> float:
    """Median of |predicted / measured - 1|, of those that a rule can tell; NaN if of none."""
    known = log_errors[~np.isnan(log_errors)]
    return float(np.median(np.abs(np.expm1(-known)))) if len(known) else float("nan")


def _baselines(rows: Rows, train: Positions, test: Positions) -> Iterator[tuple[str, FloatArray]]:
    """Yield rules, and the log seconds that they say."""
    roof = _roofline(rows)
    yield "roofline", roof[test] + np.median(rows.y[train] - roof[train])
    known, here, there = _nearest(rows, train, test)
    yield "nearest GPU", known
    bandwidth = np.log([a.bandwidth_gb_s / b.bandwidth_gb_s for a, b in zip(here, there, strict=True)])
    peak = np.log([_peak(a) / _peak(b) for a, b in zip(here, there, strict=True)])
    yield "nearest GPU by bandwidth", known + bandwidth
    yield "nearest GPU by peak", known + peak
    yield "wave scaling", known + np.where(_is_computing(rows)[test], peak, bandwidth)
    X = np.column_stack([_plain(rows), pd.factorize(rows.table["group"])[0]])
    matrix = xgboost.DMatrix(X[train], rows.y[train], nthread=1)
    booster = xgboost.train({**SETTINGS, "seed": 0}, matrix, num_boost_round=300)
    yield "trees without physics", booster.predict(xgboost.DMatrix(X[test]))


def _peak(device: Device) -> float:
    return device.tensor_flops_per_sm_clock * device.sms * device.clock_mhz * 1e6


def _parts(rows: Rows) -> tuple[FloatArray, FloatArray]:
    """Seconds at the peak of arithmetic and of the memory."""
    devices = rows.devices
    peak = rows.table["device"].map({name: _peak(each) for name, each in devices.items()}).to_numpy(float)
    bandwidth = (
        rows.table["device"].map({n: d.bandwidth_gb_s * 1e9 for n, d in devices.items()}).to_numpy(float)
    )
    moved = (rows.table["load_bytes"] + rows.table["store_bytes"]).to_numpy(float)
    return rows.table["flops"].to_numpy(float) / peak * rows.bits / 16, moved / bandwidth


def _roofline(rows: Rows) -> FloatArray:
    return np.log(np.maximum(*_parts(rows)))


def _is_computing(rows: Rows) -> FloatArray:
    computing, moving = _parts(rows)
    return computing > moving


def _plain(rows: Rows) -> FloatArray:
    """Sizes and descriptors, as they are."""
    devices = rows.devices
    told = (
        "sms",
        "clock_mhz",
        "bandwidth_gb_s",
        "l2_bytes",
        "tensor_flops_per_sm_clock",
        "shared_bytes_per_sm",
    )
    described = [rows.table["device"].map({n: getattr(d, name) for n, d in devices.items()}) for name in told]
    return np.column_stack([np.log1p(rows.table[list(rows.sizes)].to_numpy(float)), *described])


def _nearest(rows: Rows, train: Positions, test: Positions) -> tuple[FloatArray, list[Device], list[Device]]:
    """What the same call takes on the nearest GPU that has it (NaN where none has); from where, to where."""
    devices = rows.devices
    place = {n: np.log([_peak(d), d.bandwidth_gb_s]) for n, d in devices.items()}
    keys = ["group", *rows.sizes]
    part = rows.table.iloc[test]
    known, source = np.full(len(test), np.nan), np.full(len(test), "", dtype=object)
    trained = rows.table.iloc[train]
    for name, where in part.groupby("device").indices.items():
        asked = part.iloc[where][keys]
        near = sorted(
            set(trained["device"]), key=lambda other: float(np.linalg.norm(place[other] - place[name]))
        )
        for other in near:
            theirs = trained[trained["device"] == other].groupby(keys, as_index=False)["latency_s"].median()
            found = np.log(asked.merge(theirs, on=keys, how="left")["latency_s"].to_numpy(float))
            is_new = np.isnan(known[where]) & ~np.isnan(found)
            known[where[is_new]], source[where[is_new]] = found[is_new], other
    here = [devices[name or other] for name, other in zip(source, part["device"], strict=True)]
    return known, here, [devices[name] for name in part["device"]]


if __name__ == "__main__":
    main()
