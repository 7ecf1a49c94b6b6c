"""How well are kernels chosen and timed whose speed depends on their data? See README.md here."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from costmodel.dataset import Dataset, load_dataset
from costmodel.files import write_json
from costmodel.transfer import LearningRows

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]
from choices import (
    Rows,
    always,
    block_size_by_occupancy,
    chosen,
    errors,
    first,
    size_correlations,
    sparse_gain,
    summary,
)
from held_out import known, predicted
from intervals import coverages
from kit.results import markdown_table, rounded
from options import parse_options
from picture import draw

PRUNED = "sparse_linear"
DELIVERY, UPDATE = "cuda.spike_delivery", "cuda.lif_update"
LOOKUPS = "embedding_bag"
DENSE, CUSPARSE = "PyTorch, dense", "PyTorch, csr"
OCCUPANCY = "GeNN's block size"


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    study = Study(args)
    document = {name: PARTS[name](study) for name in args.parts}
    if args.json:
        kept = {**(json.loads(args.json.read_text()) if args.json.exists() else {}), **document}
        write_json(args.json, rounded({name: kept[name] for name in PARTS if name in kept}))
    if args.plots:
        draw(study.by("shape"), args.best, args.plots)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", help="kernels whose speed depends on data, on parts of a GPU")
    parser.add_argument("--device", nargs="+", help="names of the devices to look at")
    parser.add_argument("--learner", nargs="+", help="what chooses and times")
    parser.add_argument("--elsewhere", nargs="+", help="the same, where all kernels are known on other SMs")
    parser.add_argument("--best", help="the learner that the pictures show")
    parser.add_argument("--folds", type=int, help="of shapes, and of distributions")
    parser.add_argument("--parts", nargs="+", choices=PARTS, help="the others stay in the file")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--plots", type=Path, metavar="FOLDER")
    return parse_options(parser, __file__, argv)


class Study:
    """The dataset, and what learners say of it.

    Args:
        args: What ``parse`` gives.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.data: Dataset = load_dataset(args.dataset, devices=args.device)
        self._said: dict[str, pd.DataFrame] = {}

    @cached_property
    def rows(self) -> pd.DataFrame:
        """The measurements, with what they may be held out by."""
        return known(self.data)

    @cached_property
    def learning(self) -> LearningRows:
        """Their features, which all ways to hold out share."""
        return LearningRows.of(self.data)

    def by(self, held_out: str) -> pd.DataFrame:
        """What each learner says of rows that were held out by shape, distribution, SMs or device."""
        if held_out not in self._said:
            args = self.args
            folds, learners = args.folds, args.learner
            if held_out in ("sms", "device"):
                folds, learners = self.rows[held_out].nunique(), args.elsewhere
            self._said[held_out] = predicted(self.learning, self.rows, held_out, folds, learners)
        return self._said[held_out]


def pruned_layers(study: Study) -> dict[str, Rows]:
    """Is dense or sparse, and the variant, chosen rightly for a layer, or a sparsity, never seen?"""
    own = study.rows[study.rows["family"] == PRUNED]
    sparse = _table(chosen(own, CUSPARSE, always(CUSPARSE)))
    found = {}
    for held_out in ("shape", "distribution"):
        table = pd.concat(
            [
                _choices(study, held_out, [PRUNED]),
                _table(chosen(own, "cuBLAS, dense", always(DENSE))),
                sparse.assign(chosen_by="cuSPARSE"),
            ]
        )
        found[held_out] = summary(table, {"cuSPARSE": sparse})
        _print(f"pruned layers, {held_out} never seen", found[held_out])
    return found


def borders(study: Study) -> dict[str, Rows]:
    """Where is a pruned layer faster dense, and where sparse, of what was recorded?"""
    own = study.rows[study.rows["family"] == PRUNED]
    found = sparse_gain(own, ["dense", "dense_tensor", DENSE])
    _print("best dense kernel over the best sparse one", found)
    return {"gain": found}


def spiking_networks(study: Study) -> dict[str, Rows]:
    """Are variant, threads and block size chosen rightly for a network, or a firing rate, never seen?"""
    found = {}
    for held_out in ("shape", "distribution"):
        for family, what in ((DELIVERY, "way"), (DELIVERY, "threads"), (UPDATE, "way")):
            own = study.rows[study.rows["family"] == family]
            rule = _table(chosen(own, OCCUPANCY, block_size_by_occupancy(study.data), what))
            table = pd.concat([_choices(study, held_out, [family], what), rule])
            name = f"{family.removeprefix('cuda.')}, {what}, {held_out}"
            found[name] = summary(table, {OCCUPANCY: rule})
            _print(f"{name} never seen", found[name])
    said = study.by("shape")
    found["sizes"] = size_correlations(said[said["family"] == DELIVERY], "sms_granted")
    _print("latency over networks never seen", found["sizes"])
    return found


def lookups(study: Study) -> dict[str, Rows]:
    """How far off are latencies of bags for a distribution, or an SM budget, never seen?"""
    found = {}
    for held_out in ("distribution", "sms", "shape"):
        said = study.by(held_out)
        own = said[said["family"] == LOOKUPS]
        found[held_out] = errors(own, ["learner"])
        _print(f"embedding bags, {held_out} never seen", found[held_out])
        found[f"choice, {held_out}"] = summary(_choices(study, held_out, [LOOKUPS]))
        _print(f"their choice, {held_out} never seen", found[f"choice, {held_out}"])
    return found


def latencies(study: Study) -> dict[str, Rows]:
    """How far off are latencies of all families?"""
    found = {}
    for held_out in ("shape", "distribution", "sms"):
        found[held_out] = errors(study.by(held_out), ["family", "learner"])
        _print(f"latency, {held_out} never seen", found[held_out])
    return found


def another_device(study: Study) -> dict[str, Rows]:
    """Are latencies and choices right on a device where nothing is known, with all known on the other one?"""
    said = study.by("device")
    found = {"latency": errors(said, ["family", "learner"])}
    _print("latency, device never seen", found["latency"])
    for family in (PRUNED, DELIVERY, UPDATE, LOOKUPS):
        found[family] = summary(_choices(study, "device", [family]))
        _print(f"{family}, device never seen", found[family])
    return found


def intervals(study: Study) -> dict[str, Rows]:
    """How often are latencies within their interval of 90 %, by kind of workload?"""
    found = {}
    for held_out in ("shape", "distribution"):
        said = study.by(held_out)
        found[held_out] = coverages(said[said["learner"] == study.args.best])
        _print(f"intervals, {held_out} never seen", found[held_out])
    return found


def _choices(study: Study, held_out: str, families: Sequence[str], what: str = "way") -> pd.DataFrame:
    said = study.by(held_out)
    own = said[said["family"].isin(families)]
    return pd.concat(
        [
            _table(chosen(rows, str(learner), first, what))
            for learner, rows in own.groupby("learner", sort=False)
        ]
    )


def _table(found: Any) -> pd.DataFrame:
    return pd.DataFrame(list(found))


def _print(title: str, rows: Rows) -> None:
    table = markdown_table(rows[0], [list(map(_cell, row.values())) for row in rows]) if rows else "nothing"
    print(f"\n{title}:\n\n{table}")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    return f"{value[0]:.3f} to {value[1]:.3f}" if isinstance(value, list) else str(value)


PARTS: Mapping[str, Callable[[Study], Any]] = {
    "borders": borders,
    "pruned layers": pruned_layers,
    "spiking networks": spiking_networks,
    "lookups": lookups,
    "latencies": latencies,
    "intervals": intervals,
    "another device": another_device,
}

if __name__ == "__main__":
    main()
