"""How long linear layers in float32 take on a GPU that is left out: a law of lanes and power, and rules."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
import xgboost
from scipy.optimize import minimize

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import markdown_table, rounded, say
from options import parse_options
from rules import RULES

from costmodel.arrays import FloatArray
from costmodel.files import write_json
from costmodel.records import Candidate, Config, Device, Workload, find_device
from costmodel.records._candidate import KernelLaunch
from costmodel.records._peak_rates import peak_rates
from costmodel.records._platform import part_of
from costmodel.transfer.prediction._lane_products import LaneLaw

# What the law begins with, and how far logs of its numbers lie from that; what is known of a GPU, nothing.
BEGIN = LaneLaw(lanes=0.93, tile_wait=4.0, start_s=2e-5, flops_per_j=1e7)
NUMBERS = ("lanes", "tile_wait", "start_s", "flops_per_j")
APART = np.array([0.1, 0.5, 1.0, 1.0])
ROBUST, PRIOR = 0.1, 0.02
MEASURED, LEVEL = (0, 8, 32), 0.9
SHORT = {"Tesla V100-PCIE-32GB": "V100", "Tesla T4": "T4", "NVIDIA L4": "L4"}
SHORT |= {"NVIDIA A100-PCIE-40GB": "A100", "NVIDIA H100 80GB HBM3": "H100"}


@dataclass(frozen=True)
class Layers:
    """Linear layers that were measured.

    Attributes:
        table: A row a layer and GPU: ``device``, ``rows``, ``columns``, ``depth``, ``latency_s``, and the
            ``blocks`` and ``threads`` of its kernel.
    """

    table: pd.DataFrame

    @classmethod
    def read(cls, path: Path, devices: Sequence[str]) -> "Layers":
        """Read NeuSight's ``linear.csv``, or some of its rows."""
        told = pd.read_csv(path)
        told = told[told["Device"].isin(devices) & (told["B"] == 1)]
        found = told.rename(columns={"Device": "device", "M": "rows", "K": "columns", "N": "depth"})
        found["latency_s"] = told["Latency"] / 1e3
        found["blocks"] = told["Grid x"] * told["Grid y"] * told["Grid z"]
        found["threads"] = told["Block x"] * told["Block y"] * told["Block z"]
        kept = ["device", "rows", "columns", "depth", "latency_s", "blocks", "threads"]
        return cls(found[kept].reset_index(drop=True))

    def on(self, *names: str) -> "Layers":
        """Return those on some GPUs."""
        return Layers(self.table[self.table["device"].isin(names)].reset_index(drop=True))

    def drawn(self, each: int, seed: int) -> "Layers":
        """Draw at most so many of each GPU."""
        mixed = self.table.sample(frac=1.0, random_state=seed)
        return Layers(mixed.groupby("device").head(each).reset_index(drop=True))

    @cached_property
    def names(self) -> list[str]:
        """GPUs."""
        return sorted(self.table["device"].unique())

    @cached_property
    def y(self) -> FloatArray:
        """``(n,)`` log seconds."""
        return np.log(self.table["latency_s"].to_numpy(np.float64))

    @cached_property
    def sizes(self) -> FloatArray:
        """``(3, n)`` rows, columns and depth."""
        return self.table[["rows", "columns", "depth"]].to_numpy(np.float64).T

    def said(self, law: LaneLaw) -> FloatArray:
        """Log seconds by a law."""
        found = np.empty(len(self.table))
        for name, at in self.table.groupby("device").indices.items():
            found[at] = np.log(law.seconds(*self.sizes[:, at], find_device(str(name))))
        return found


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=Path, help="linear.csv of NeuSight")
    parser.add_argument("--devices", nargs="+", help="GPUs, each of which is left out")
    parser.add_argument("--each", type=int, help="layers of each GPU that are learned from")
    parser.add_argument("--seeds", type=int, help="draws of these, and of those that are measured")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the results are written")
    args = parse_options(parser, __file__, argv)
    if args.table is None or not args.table.exists():
        say("linear.csv of NeuSight is not here: name it with --table. Nothing was judged.")
        return
    layers = Layers.read(args.table, args.devices)
    found = pd.DataFrame(row for seed in range(args.seeds) for row in judge(layers, args.each, seed))
    means = found.groupby(["method", "device"], sort=False)[["error", "covered"]].mean()
    means = means.join(found.groupby(["method", "device"])["error"].std().rename("seeds_apart"))
    pairs = pd.DataFrame(row for seed in range(args.seeds) for row in judge_pairs(layers, args.each, seed))
    pairs = pairs.groupby(["known", "device"], as_index=False)["error"].mean()
    shipped = replace(fit_law(layers), spread=_quantile(list(_left_out(layers).values())))
    if args.out:
        rows = means.astype(object).where(means.notna(), None).reset_index().to_dict("records")
        counts = layers.table["device"].value_counts().to_dict()
        document = {"layers": counts, "law": asdict(shipped), "left_out": rows}
        write_json(args.out, rounded({**document, "pairs": pairs.to_dict("records")}, 9))
    print(f"{shown(means)}\n\nRatio of laws, from the GPU of a row to that of a column:\n")
    print(shown_pairs(pairs))
    print(f"\n{len(layers.table)} layers; the law of all: {shipped}")
    print(f"pairs: median {pairs['error'].median():.1%}, most {pairs['error'].max():.1%}")


def _left_out(layers: Layers) -> dict[str, FloatArray]:
    """Sizes of log errors on each GPU of the law of the others."""
    laws = {name: fit_law(layers.on(*(n for n in layers.names if n != name))) for name in layers.names}
    return {name: np.abs(_corrected(layers.on(name), law, 0, 0)) for name, law in laws.items()}


def fit_law(layers: Layers) -> LaneLaw:
    """Fit the law to what was measured, each GPU with the same weight, large errors by their size."""
    by_device = [layers.on(name) for name in layers.names]
    begin = np.log([getattr(BEGIN, name) for name in NUMBERS])

    def law(values: FloatArray) -> LaneLaw:
        return replace(BEGIN, **dict(zip(NUMBERS, np.exp(values).tolist(), strict=True)))

    def loss(values: FloatArray) -> float:
        missed = [(part.y - part.said(law(values))) / ROBUST for part in by_device]
        prior = PRIOR * np.square((values - begin) / APART).sum()
        return float(sum(np.mean(np.sqrt(1 + each**2) - 1) for each in missed) + prior)

    options = {"maxiter": 400, "xatol": 1e-3, "fatol": 1e-4}
    return law(minimize(loss, begin, method="Nelder-Mead", options=options).x)


def judge(layers: Layers, each: int, seed: int) -> Iterator[dict[str, object]]:
    """Yield a row for each method and GPU that is left out."""
    known = layers.drawn(each, seed)
    for left_out in layers.names:
        others = [name for name in layers.names if name != left_out]
        train, test = known.on(*others), layers.on(left_out)
        law = fit_law(train)
        inner = {name: fit_law(train.on(*(n for n in others if n != name))) for name in others}
        for count in MEASURED:
            missed = _corrected(test, law, count, seed)
            within = [_corrected(layers.on(name), inner[name], count, seed) for name in others]
            spread = _quantile([np.abs(part) for part in within])
            told = {"error": _error(missed), "covered": float(np.mean(np.abs(missed) <= spread))}
            yield {"method": f"law, {count} measured", "device": left_out, **told}
        for method, said in _baselines(layers.on(*others), train, test):
            yield {"method": method, "device": left_out, "error": _error(test.y - said), "covered": np.nan}


def judge_pairs(layers: Layers, each: int, seed: int) -> Iterator[dict[str, object]]:
    """Yield how far a latency is off that goes from one GPU to another, left out, by the ratio of the law."""
    known = layers.drawn(each, seed)
    laws = {name: fit_law(known.on(*(n for n in layers.names if n != name))) for name in layers.names}
    for here, there in permutations(layers.names, 2):
        before, after, law = layers.on(here), layers.on(there), laws[there]
        sizes = ["rows", "columns", "depth"]
        left = before.table.assign(missed=before.y - before.said(law))[[*sizes, "missed"]]
        right = after.table.assign(missed=after.y - after.said(law))[[*sizes, "missed"]]
        both = left.merge(right, on=sizes, suffixes=("_here", "_there"))
        missed = (both["missed_there"] - both["missed_here"]).to_numpy()
        if len(both):
            yield {"known": here, "device": there, "error": _error(missed), "layers": len(both)}


def _corrected(layers: Layers, law: LaneLaw, count: int, seed: int) -> FloatArray:
    """Log errors of a law, less the median of those of some layers that are measured, which are left out."""
    missed = layers.y - layers.said(law)
    mixed = np.random.default_rng(seed).permutation(len(missed))
    drawn, rest = mixed[:count], mixed[count:]
    return missed[rest] - (np.median(missed[drawn]) if count else 0.0)


def _quantile(parts: Sequence[FloatArray]) -> float:
    """Value that ``LEVEL`` of the parts lie below, each of which weighs the same."""
    values, weights = np.concatenate(parts), np.concatenate([np.full(len(p), 1 / len(p)) for p in parts])
    order = np.argsort(values)
    return float(values[order][np.searchsorted(np.cumsum(weights[order]) / len(parts), LEVEL)])


def _error(missed: FloatArray) -> float:
    """Median of |predicted / measured - 1|; NaN if nothing is told."""
    told = missed[~np.isnan(missed)]
    return float(np.median(np.abs(np.expm1(-told)))) if len(told) else float("nan")


def _baselines(elsewhere: Layers, train: Layers, test: Layers) -> Iterator[tuple[str, FloatArray]]:
    """Yield rules, and the log seconds that they say."""
    yield "roofline", _roofline(test) + np.median(train.y - _roofline(train))
    known, source = _nearest(elsewhere, test)
    for name, rule in RULES.items():
        said = np.full(len(test.y), np.nan)
        for at, kernel in enumerate(_kernels(test)):
            if source[at]:
                where = (part_of(find_device(each)) for each in (source[at], test.table["device"][at]))
                said[at] = np.log(rule(np.exp(known[at : at + 1]), [kernel], *where)[0])
        yield f"nearest GPU, {name}", said
    settings = {"max_depth": 6, "eta": 0.08, "min_child_weight": 3, "lambda": 3.0, "nthread": 1, "seed": 0}
    booster = xgboost.train(settings, xgboost.DMatrix(_plain(train), train.y), num_boost_round=200)
    yield "trees without physics", booster.predict(xgboost.DMatrix(_plain(test)))


def _roofline(layers: Layers) -> FloatArray:
    rows, columns, depth = layers.sizes
    devices = [find_device(name) for name in layers.table["device"]]
    peak = np.array([peak_rates(each).fp32_tflops * 1e12 for each in devices])
    bandwidth = np.array([each.bandwidth_gb_s * 1e9 for each in devices])
    moved = 4 * (rows * depth + depth * columns + rows * columns)
    return np.log(np.maximum(2 * rows * columns * depth / peak, moved / bandwidth))


def _nearest(elsewhere: Layers, test: Layers) -> tuple[FloatArray, list[str]]:
    """Log seconds of the same layers on the nearest GPU by datasheet that has them, and its name."""
    place = {name: _place(find_device(name)) for name in (*elsewhere.names, *test.names)}
    known, source = np.full(len(test.y), np.nan), [""] * len(test.y)
    sizes = ["rows", "columns", "depth"]
    target = place[test.names[0]]
    for name in sorted(elsewhere.names, key=lambda n: -float(np.linalg.norm(place[n] - target))):
        theirs = elsewhere.on(name).table[[*sizes, "latency_s"]]
        seconds = test.table[sizes].merge(theirs, on=sizes, how="left")["latency_s"].to_numpy()
        for at in np.flatnonzero(~np.isnan(seconds)):
            known[at], source[at] = np.log(seconds[at]), name
    return known, source


def _place(device: Device) -> FloatArray:
    return np.log([peak_rates(device).fp32_tflops, device.bandwidth_gb_s])


def _kernels(layers: Layers) -> list[Candidate]:
    """What rules are told of the kernels: sizes and launches."""
    return [
        Candidate(
            Workload.parse(f"matmul-m{each.rows}-n{each.columns}-k{each.depth}"),
            "neusight",
            Config({}),
            (KernelLaunch(blocks=each.blocks, threads_per_block=each.threads),),
        )
        for each in layers.table.itertuples()
    ]


def _plain(layers: Layers) -> FloatArray:
    """Sizes and datasheets, as they are."""
    devices = [find_device(name) for name in layers.table["device"]]
    told = [[d.sms, d.clock_mhz, d.fp32_lanes_per_sm, d.bandwidth_gb_s, d.l2_bytes] for d in devices]
    return np.column_stack([np.log(layers.sizes.T), np.log(np.array(told, dtype=np.float64))])


def shown(means: pd.DataFrame) -> str:
    cells = means["error"].map("{:.1%}".format)
    covered = means["covered"].map(" [{:.0%}]".format).where(means["covered"].notna(), "")
    wide = (cells + covered).unstack("device").reindex(means.index.get_level_values(0).unique())
    header = ["", *(SHORT.get(name, name) for name in wide.columns)]
    return markdown_table(header, wide.reset_index().to_numpy().tolist())


def shown_pairs(pairs: pd.DataFrame) -> str:
    wide = pairs.pivot(index="known", columns="device", values="error")
    cells = wide.map(lambda each: "" if np.isnan(each) else f"{each:.1%}")
    rows = [[SHORT.get(name, name), *cells.loc[name]] for name in cells.index]
    return markdown_table(["from", *(SHORT.get(name, name) for name in cells.columns)], rows)


if __name__ == "__main__":
    main()
