"""What compiled networks are worth beside the goals, from what ``run.py`` found, and one picture of all.

``--pack FOLDER`` first gathers the results that are there into networks.json.
"""

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]
from kit.results import markdown_table, rounded
from ways import AGAIN, DEFAULT, EAGER, LISTS, OURS, PART, SHIPPED, UNTIMED, WHOLE

from costmodel.files import write_json

FOUND = Path(__file__).with_name("networks.json")
PICTURE = Path(__file__).with_name("networks.png")
OF_OURS = (OURS, LISTS, UNTIMED)
OTHERS = (EAGER, DEFAULT, WHOLE, PART)
_COLOURS = {
    EAGER: "#bbbbbb",
    DEFAULT: "#888888",
    WHOLE: "#c0392b",
    PART: "#e0a030",
    UNTIMED: "#4c9f8f",
    LISTS: "#7fb3e0",
}
_COLUMNS, _MOST = 4, 4.0

Networks = Sequence[Mapping[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pack", type=Path, metavar="FOLDER", help="of results of run.py")
    args = parser.parse_args()
    if args.pack:
        names = sorted(args.pack.rglob("*.json"))
        found = [json.loads(each.read_text(encoding="utf-8")) for each in names]
        write_json(FOUND, rounded([each for each in found if "latency_s" in each and "network" in each], 8))
    networks = json.loads(FOUND.read_text(encoding="utf-8"))
    print(table(networks))
    draw(networks, PICTURE)


def cases(networks: Networks, *, whole: bool) -> list[dict[str, float]]:
    """Seconds by way, of each network on each part, or on the whole GPU."""
    return [
        latency_s
        for found in networks
        for sms, latency_s in found["latency_s"].items()
        if (int(sms) == max(found["sms"])) == whole
    ]


def over(
    others: Sequence[str], ours: str, found: Sequence[Mapping[str, float]], also: Sequence[str] = ()
) -> list[float]:
    """Return the least latency of some ways, and of others that are known, / that of one of ours."""
    known = [each for each in found if {ours, *others} <= set(each)]
    return [min(each[other] for other in (*others, *also) if other in each) / each[ours] for each in known]


def compile_ratios(networks: Networks, ours: str, stock: str) -> list[float]:
    """Return seconds to compile a network first / those of another way."""
    first = [{way: next(iter(s.values())) for way, s in each["compile_s"].items()} for each in networks]
    return [each[ours] / each[stock] for each in first if ours in each and stock in each]


def table(networks: Networks) -> str:
    """Markdown: for each of our ways, the geometric mean over networks and SMs, and the worst."""
    parts, whole = cases(networks, whole=False), cases(networks, whole=True)
    rows = [
        ("max-autotune of the whole GPU / ours, on parts", 1.4, [over([WHOLE], w, parts) for w in OF_OURS]),
        ("max-autotune of the part / ours", 1.05, [over([PART], w, parts) for w in OF_OURS]),
        ("the best of all others / ours, on parts", 0.98, [over(OTHERS, w, parts) for w in OF_OURS]),
        (
            "the best of all that time / ours, on parts",
            0.95,
            [over(OTHERS, w, parts, OF_OURS) for w in OF_OURS],
        ),
        ("max-autotune / ours, on the whole GPU", 1.02, [over([WHOLE], w, whole) for w in OF_OURS]),
        ("the best of all others / ours there", 0.98, [over(OTHERS[:3], w, whole) for w in OF_OURS]),
    ]
    shown = [[name, goal, *(_summed(each) for each in found)] for name, goal, found in rows]
    for stock in (SHIPPED, WHOLE):
        ratios = [compile_ratios(networks, way, stock) for way in OF_OURS]
        if any(ratios):
            shown.append([f"compile time / {stock}", "0.5; 0.15", *(_summed(each, max) for each in ratios)])
    again = [abs(each[AGAIN] / each[LISTS] - 1) for each in (*parts, *whole) if AGAIN in each]
    repeats = f"A/A: {median(again):.1%} in the median, {max(again):.1%} at most." if again else ""
    return f"{markdown_table(['figure', 'goal', *OF_OURS], shown)}\n\n{repeats}"


def _summed(ratios: Sequence[float], worst: Any = min) -> str:
    return f"{geometric_mean(ratios):.3f}; {worst(ratios):.3f} ({len(ratios)})" if ratios else ""


def draw(networks: Networks, path: Path) -> None:
    """A panel a network: latency of each way / ours, over the SMs."""
    from costmodel.report._figures import NotebookFigure, save_figure  # loads matplotlib

    rows = math.ceil(len(networks) / _COLUMNS)
    figure = NotebookFigure(figsize=(11, 2.6 * rows + 0.5), layout="constrained")
    panels = figure.subplots(rows, _COLUMNS, sharex=True, sharey=True, squeeze=False).flatten()
    for panel, found in zip(panels, networks, strict=False):
        on_parts = {int(sms): each for sms, each in found["latency_s"].items() if OURS in each}
        for way, colour in _COLOURS.items():
            line = {sms: each[way] / each[OURS] for sms, each in on_parts.items() if way in each}
            panel.plot(line.keys(), line.values(), color=colour, marker=".", linewidth=1.4, label=way)
        panel.axhline(1.0, color="black", linewidth=1.2, label="six timed")
        panel.set_title(f"{found['network']}, {found['device'].split()[1]}", fontsize=9)
        panel.set(xscale="log", yscale="log", ylim=(0.7, _MOST))
        panel.set_xticks(sorted(on_parts), [str(sms) for sms in sorted(on_parts)], minor=False)
        panel.set_xticks([], minor=True)
        panel.set_yticks([0.7, 1, 1.4, 2, 4], ["0.7", "1", "1.4", "2", "4"], minor=False)
        panel.set_yticks([], minor=True)
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in panels[len(networks) :]:
        panel.set_visible(False)
    figure.supxlabel("SMs", fontsize=10)
    figure.supylabel("latency / ours with six candidates timed", fontsize=10)
    lines, names = panels[0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside upper center", ncols=len(names), frameon=False, fontsize=8)
    save_figure(figure, path, dpi=90)


if __name__ == "__main__":
    main()
