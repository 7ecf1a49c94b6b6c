"""What tuning at one SM budget costs on the others, and at which to tune. See README.md here."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from costmodel.dataset import Dataset, load_dataset
from costmodel.files import write_json

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options


@dataclass(frozen=True)
class Losses:
    """What the best kernel of one SM budget costs on another.

    Attributes:
        sms: ``(k,)`` SM budgets, ascending.
        workloads: Name of each workload.
        log_loss: ``(w, k, k)`` log of the latency of the kernel that is best at the second axis's budget, run
            at the third axis's, over the best latency there; 0 is best.
    """

    sms: tuple[int, ...]
    workloads: tuple[str, ...]
    log_loss: np.ndarray


def main() -> None:
    options = parse()
    dataset = load_dataset(options.dataset)
    devices = sorted({platform.device.name for platform in dataset.platforms})
    losses = {device: measured_losses(dataset, device) for device in devices}
    result = {device: summary(found, options.resamples) for device, found in losses.items()}
    for device, found in result.items():
        print(f"\n{device}, {found['workloads']} workloads")
        print(pd.DataFrame(found["tuned_at"]).round(3).to_string(index=False))
    if options.json:
        write_json(options.json, result)
    if options.plot:
        draw(losses, options.plot)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", type=Path, help="dataset with several SM budgets")
    parser.add_argument("--resamples", type=int, help="draws of workloads for each interval")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    parser.add_argument("--plot", type=Path, help="where to draw them, as PNG")
    return parse_options(parser, __file__, argv)


def measured_losses(dataset: Dataset, device: str) -> Losses:
    """Losses on a device among the kernels that ran on all its budgets; MPS is left out."""
    kept = [p.device.name == device and p.isolation != "mps" for p in dataset.platforms]
    rows = dataset.rows[np.array(kept)[dataset.rows["platform"]]]
    table = rows.pivot_table(index=["workload", "candidate"], columns="sms_granted", values="latency_s")
    table = table.replace(np.inf, np.nan).dropna()
    names = tuple(sorted(table.index.unique("workload")))
    each = [log_losses(table.loc[name].to_numpy()) for name in names]
    return Losses(tuple(map(int, table.columns)), names, np.stack(each))


def log_losses(latency_s: np.ndarray) -> np.ndarray:
    """``(k, k)`` log losses of one workload: tuned at the first axis's budget, run at the second's.

    Args:
        latency_s: ``(n, k)`` seconds of each kernel at each budget.
    """
    chosen = latency_s.argmin(axis=0)
    return np.log(latency_s[chosen] / latency_s.min(axis=0))


def summary(losses: Losses, resamples: int) -> dict[str, Any]:
    """Losses in the geometric mean of the workloads, with 95 % intervals that draw workloads."""
    draws = np.random.default_rng(0).integers(len(losses.workloads), size=(resamples, len(losses.workloads)))
    of_draws = losses.log_loss[draws].mean(axis=1)  # (resamples, k, k)
    mean = losses.log_loss.mean(axis=0)
    low, high = np.quantile(of_draws, [0.025, 0.975], axis=0)
    overall = of_draws.mean(axis=2)  # (resamples, k), all budgets counting alike
    best = np.bincount(overall.argmin(axis=1), minlength=len(losses.sms)) / resamples
    to_whole = np.quantile(np.expm1(overall - overall[:, -1:]), [0.025, 0.975], axis=0)
    tuned_at = [
        {
            "tuned_at": sms,
            "loss": float(np.expm1(mean[i].mean())),
            "low": float(np.expm1(np.quantile(overall[:, i], 0.025))),
            "high": float(np.expm1(np.quantile(overall[:, i], 0.975))),
            "at_8": float(np.expm1(mean[i, 0])),
            "at_whole": float(np.expm1(mean[i, -1])),
            "worst_budget": float(np.expm1(mean[i].max())),
            "worst_case": float(np.expm1(losses.log_loss[:, i].max())),
            "best_in": float(best[i]),
            "to_whole": float(np.expm1(mean[i].mean() - mean[-1].mean())),
            "to_whole_low": float(to_whole[0, i]),
            "to_whole_high": float(to_whole[1, i]),
        }
        for i, sms in enumerate(losses.sms)
    ]
    return {
        "workloads": len(losses.workloads),
        "sms": losses.sms,
        "loss": np.expm1(mean).round(5).tolist(),
        "loss_low": np.expm1(low).round(5).tolist(),
        "loss_high": np.expm1(high).round(5).tolist(),
        "tuned_at": tuned_at,
    }


def draw(losses: dict[str, Losses], path: Path) -> None:
    """One heat map a device: a row for each budget tuned at, a column for each run at."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.5 + 5.6 * len(losses), 5.4), layout="constrained")
    panels = figure.subplots(1, len(losses), squeeze=False)[0]
    for axes, (device, found) in zip(panels, losses.items(), strict=True):
        percent = 100 * np.expm1(found.log_loss.mean(axis=0))
        image = axes.imshow(percent, cmap="YlOrRd", vmin=0, vmax=60)
        for (i, j), value in np.ndenumerate(percent):
            colour = "white" if value > 36 else "black"
            axes.text(j, i, f"{value:.0f}", ha="center", va="center", fontsize=8, color=colour)
        axes.set_xticks(range(len(found.sms)), found.sms)
        axes.set_yticks(range(len(found.sms)), found.sms)
        axes.set(title=device, xlabel="run on so many SMs", ylabel="tuned on so many SMs")
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
    figure.suptitle("Latency above that of the best kernel for the budget, in %, geometric mean of workloads")
    figure.colorbar(image, ax=list(panels), fraction=0.03, pad=0.01, extend="max").set_label("loss in %")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
