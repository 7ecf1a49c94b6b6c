"""Draw how good each rule's first choice is over the number of SMs."""

import argparse
import json
from pathlib import Path

import matplotlib.pyplot as plt

_ORDER = {
    "costmodel, with cuBLASLt's list": ("tab:blue", "-", 2.5),
    "costmodel, with the list and a margin of 1.3": ("tab:blue", ":", 1.5),
    "costmodel": ("tab:blue", "--", 2.0),
    "costmodel, analytic core alone": ("tab:cyan", ":", 1.5),
    "cuBLASLt told its SMs": ("tab:green", "-", 1.5),
    "cuBLASLt's heuristics": ("tab:green", "--", 1.5),
    "PyTorch's call": ("tab:orange", "-", 1.5),
    "nearest shape": ("tab:purple", "-", 1.2),
    "nvMatmulHeuristics": ("tab:red", "-", 1.2),
    "Origami (tritonBLAS)": ("tab:brown", "-", 1.2),
    "Helion's formula": ("tab:pink", "-", 1.2),
    "wave quantisation": ("tab:gray", "-", 1.2),
    "DeepGEMM's rule": ("black", ":", 1.2),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path, help="result.json of judge.py")
    parser.add_argument("--out", type=Path, required=True, help="picture")
    options = parser.parse_args()
    by_sms = json.loads(options.result.read_text())["by_sms"]
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), sharex=True, sharey=True)
    for axis, statistic, title in zip(axes, ("median", "p10"), ("median", "10th percentile"), strict=True):
        for rule, (color, style, width) in _ORDER.items():
            if rule in by_sms:
                sms = sorted(map(int, by_sms[rule]))
                values = [by_sms[rule][str(each)][statistic] for each in sms]
                axis.plot(
                    sms, values, style, color=color, linewidth=width, marker="o", markersize=3, label=rule
                )
        axis.set_xscale("log", base=2)
        axis.set_xticks(sms, [str(each) for each in sms])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("granted SMs")
    axes[0].set_ylabel("best of all kernels / first choice")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8, frameon=False)
    figure.subplots_adjust(left=0.06, right=0.77, bottom=0.11, top=0.92, wspace=0.06)
    figure.savefig(options.out, dpi=90, metadata={"Software": None})


if __name__ == "__main__":
    main()
