"""What is learned from Triton kernels on parts of a GPU? See README.md here."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from costmodel.dataset import Dataset, load_dataset
from costmodel.evaluation import EvaluationReport
from costmodel.evaluation._judge import RANDOM, WHOLE_DEVICE
from costmodel.files import write_json

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]
from held_out import Known, judged, kernel_folds, of_source, on_device, shape_folds, with_families
from kit.results import rounded
from library import PYTORCH, judge_library
from options import parse_options
from picture import draw
from products import judge_rules_of_products
from report import (
    budget_gaps,
    by_group,
    excesses,
    exhaustive,
    first_choices,
    markdown,
    percents,
    shares_of_sweep,
    timed,
    ways_of_products,
    wide,
)
from rules import default_was_measured, judge_rules
from sharing import differences, judge_sharing, like

GROUPED = "fused_moe"  # the kernel whose sweeps are long


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    study = Study(args)
    document = _kept(args)
    for name, part in PARTS.items():
        if args.only and name not in args.only:
            continue
        start = time.perf_counter()
        found = part(study)
        document |= {} if found is None else {name: found}
        print(f"\n({name}: {time.perf_counter() - start:.0f} s)\n", flush=True)
        if args.json:
            write_json(args.json, rounded(document))


def _kept(args: argparse.Namespace) -> dict[str, Any]:
    """What was found before, where only some parts are asked for again."""
    if not (args.only and args.json and args.json.exists()):
        return {}
    found: dict[str, Any] = json.loads(args.json.read_text(encoding="utf-8"))
    return found


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", help="Triton's kernels, and the library's calls, on parts of a GPU")
    parser.add_argument("--device", help="name of the GPU that is judged; near-twins of it would add nothing")
    parser.add_argument("--others", nargs="*", help="as source=dataset: what else is learned from")
    parser.add_argument("--learner", nargs="+", help="what chooses without timings")
    parser.add_argument("--timed-learner", nargs="+", help="what chooses without timings, and with a few")
    parser.add_argument("--best", help="the learner that is shown beside rules for matrix products")
    parser.add_argument("--sharing-learner", nargs="+", help="what may learn from others")
    parser.add_argument("--folds", type=int, help="groups of held-out shapes")
    parser.add_argument("--shots", nargs="+", type=int, help="numbers of timed configs; the last is reported")
    parser.add_argument("--most", type=int, help="configs of each workload that other sources lend")
    parser.add_argument("--only", nargs="*", choices=PARTS, help="parts; the others stay as FILE has them")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE")
    return parse_options(parser, __file__, argv)


class Study:
    """The dataset, and what several parts look at.

    Args:
        args: What ``parse`` gives.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.data = on_device(load_dataset(args.dataset), args.device)

    @cached_property
    def triton(self) -> Dataset:
        """Triton's kernels."""
        return of_source(self.data, "triton")

    @cached_property
    def known(self) -> Known:
        """What each of their rows is of."""
        return Known.of(self.triton)

    @cached_property
    def shapes(self) -> EvaluationReport:
        """Choices for shapes that were held out, of learners that may time some."""
        args = self.args
        folds = shape_folds(self.known, args.folds)
        return judged(self.triton, folds, args.timed_learner, "held-out shapes", args.shots)

    @cached_property
    def untimed(self) -> EvaluationReport:
        """The same, of the other learners."""
        folds, others = shape_folds(self.known, self.args.folds), self.args.learner
        return judged(self.triton, folds, others, "held-out shapes")

    @cached_property
    def first_choices(self) -> pd.DataFrame:
        """Choices without timings for shapes that were held out, of all learners."""
        others = self.untimed.tasks
        references = others["learner"].isin((RANDOM, WHOLE_DEVICE))
        return self.named(pd.concat([self.shapes.tasks, others[~references]]))

    def named(self, tasks: pd.DataFrame) -> pd.DataFrame:
        """Results with families."""
        return with_families(tasks, self.triton, self.known)


def whole_gpu(study: Study) -> Any:
    """How wrong is the whole GPU's config on a part of it?"""
    rows = budget_gaps(study.named(study.shapes.tasks))
    print(wide(rows, "family", "sms", percents("median", "p90")))
    return rows


def rules(study: Study) -> Any:
    """How good is the first choice of rules that learn nothing?"""
    found = _first(study, study.named(judge_rules(study.triton)))
    found["default was measured"] = default_was_measured(study.triton)
    print(f"\nThe author's default was measured in {found['default was measured']:.0%} of the tasks.")
    return found


def unseen_shapes(study: Study) -> Any:
    """How good is the first choice for a shape that was never timed?"""
    return _first(study, study.first_choices) | {"seconds": {**study.untimed.seconds, **study.shapes.seconds}}


def unseen_kernels(study: Study) -> Any:
    """How good is the first choice for a kernel of which nothing was ever timed?"""
    learners = [*study.args.learner, *study.args.timed_learner]
    report = judged(study.triton, kernel_folds(study.known), learners, "held-out kernels")
    return _first(study, study.named(report.tasks)) | {"seconds": report.seconds}


def _first(study: Study, tasks: pd.DataFrame) -> dict[str, Any]:
    """Score@1 over all tasks and over those on parts of the GPU, by kernel and by SMs."""
    found = {
        "all": first_choices(tasks),
        "parts of the GPU": first_choices(tasks[~_on_whole(tasks, study)]),
        "by kernel": by_group(tasks, "kernel"),
        "by SMs": by_group(tasks, "sms_granted"),
    }
    for name in ("all", "parts of the GPU"):
        print(f"\n{name}:\n\n{markdown(found[name], 'way', 'tasks', 'median', 'p10', 'mean', 'ci95')}")
    print(f"\n{wide(found['by kernel'], 'way', 'kernel', _three('median'))}")
    return found


def few_timed(study: Study) -> Any:
    """How far off is the best of a few timed configs?"""
    count = study.args.shots[-1]
    found = {"timed": timed(study.shapes.shots, count), "exhaustive": exhaustive(study.triton)}
    print(wide(found["timed"], "way", "sms", percents("median", "p95")))
    print(f"\n{markdown(found['exhaustive'], 'sms', 'configs', 'measured_s', 'autotune_s')}")
    return found


def matrix_products(study: Study) -> Any:
    """How far off are rules for matrix products, and the library?"""
    rules, library = judge_rules_of_products(study.triton), judge_library(study.data)
    if rules.empty:
        return []
    judged = pd.concat([rules, library[library["task"].isin(rules["task"])]])
    shots = study.shapes.shots[study.shapes.shots["shots"] == study.args.shots[-1]]
    rows = excesses(ways_of_products(judged, study.shapes.tasks, shots, study.args.best))
    print(wide(rows, "way", "sms", percents("median", "p90")))
    return rows


def library(study: Study) -> Any:
    """How far is PyTorch's own call from the best Triton config?"""
    found = study.named(judge_library(study.data))
    rows = excesses(found[found["way"] == PYTORCH], "family")
    print(wide(rows, "family", "sms", percents("median", "p90")))
    return rows


def grouped_products(study: Study) -> Any:
    """How much of a sweep does a mixture of experts need?"""
    rows = shares_of_sweep(study.named(study.shapes.shots), GROUPED)
    print(markdown(rows, "way", "tasks", "configs", "of", "median", "p90"))
    return rows


def sharing(study: Study) -> Any:
    """Do records of other sources help?"""
    sources, args = {"triton": study.triton}, study.args
    for other in args.others:
        name, _, dataset = other.partition("=")
        sources[name] = like(load_dataset(dataset), name, study.triton, args.most)
    judged_sources = [name for name in ("triton", "cuda") if name in sources]
    rows = differences(judge_sharing(sources, judged_sources, args.sharing_learner, args.folds))
    columns = ("judged", "held_out", "learner", "trained", "tasks", "median", "mean", "difference", "ci95")
    print(markdown(rows, *columns))
    return rows


def picture(study: Study) -> None:
    """Draw what few timings leave."""
    if study.args.plot:
        gaps = budget_gaps(study.named(study.shapes.tasks))
        shots = study.shapes.shots
        part = shots[~shots["whole_device"].astype(bool)]
        shown = [RANDOM, WHOLE_DEVICE, *study.args.timed_learner]
        draw(gaps, part, shown, study.args.plot)


PARTS: Mapping[str, Callable[[Study], Any]] = {
    part.__name__.replace("_", "-"): part
    for part in (
        whole_gpu,
        rules,
        unseen_shapes,
        unseen_kernels,
        few_timed,
        matrix_products,
        library,
        grouped_products,
        sharing,
        picture,
    )
}


def _on_whole(tasks: pd.DataFrame, study: Study) -> "pd.Series[bool]":
    """Whether each task has the most SMs that there are of its device."""
    most = study.triton.rows.groupby("device", observed=True)["sms_granted"].max()
    on_whole: pd.Series[bool] = tasks["sms_granted"] == tasks["device"].astype(str).map(most)
    return on_whole


def _three(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda row: f"{row[name]:.3f}"


if __name__ == "__main__":
    main()
