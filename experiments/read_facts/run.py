"""How good is the first choice for a kernel never timed, by what was read of it, and what does reading take?

Gradient-boosted trees see each column less its mean over the configs of the task, and learn the log of the
latency less its mean over them. All families of kernels but one are learned from, each with the same weight;
the one left out is judged. Results go into a JSON file.
"""

import argparse
import resource
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from xgboost import XGBRegressor

from costmodel.dataset import Dataset, load_dataset
from costmodel.dataset._read_facts import load_read_facts
from costmodel.features._extract import extract
from costmodel.features._ir import extract_read
from costmodel.features._table import FeatureTable
from costmodel.files import write_json
from costmodel.kernels._read_facts import READ_FACTS, ReadFacts
from costmodel.records import Candidate
from costmodel.records._candidate import KernelLaunch

sys.path += [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "triton_budgets")]
from budgets import with_rows
from held_out import Known, kernel_folds, of_source, on_device
from kit.judging import judge_scores
from kit.results import markdown_table, rounded
from options import parse_options

# Facts of the second dialect begin so, or are among these.
_OF_LAYOUTS = (
    *("thread_", "is_group_product", "shared_", "conversions", "converted_elements", "barriers", "shuffles"),
    *("cross_warp_reductions", "copies_ahead", "access_bytes", "replicated_load_bytes"),
    *("load_request_sectors", "store_request_sectors", "request_lines", "bank_turns", "register_limit"),
)
ON_TOP = "on top of the analytic time"
_TREE: dict[str, Any] = {
    "n_jobs": 1,
    "tree_method": "hist",
    "max_depth": 6,
    "learning_rate": 0.1,
    "subsample": 0.5,
    "colsample_bynode": 0.33,
}


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", help="Triton's kernels on parts of GPUs, with what was read of them")
    parser.add_argument("--device", help="name of the GPU that is judged")
    parser.add_argument("--sms", nargs="+", type=int, help="parts of it that are judged, in SMs")
    parser.add_argument("--seeds", type=int, help="models that are trained of each kind")
    parser.add_argument("--trees", type=int, help="trees of each")
    parser.add_argument("--timed", type=int, help="configs of which reading is timed, if Triton is installed")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parse_options(parser, __file__, argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    whole = load_dataset(args.dataset)
    data = on_parts(of_source(on_device(whole, args.device), "triton"), args.sms)
    study = Study.of(data, load_read_facts(whole))
    found: dict[str, Any] = {"choices": [], "by kernel": {}}
    if args.timed and find_spec("triton"):
        found["reading"] = time_reading(data, args.timed)
        print(found["reading"])
    for name, columns in study.columns.items():
        tasks = study.at_random()
        if columns is not None:
            tasks = study.judge(columns, args, on_top=name.endswith(ON_TOP))
        found["choices"].append({"columns": name, **summary(tasks)})
        found["by kernel"][name] = tasks.groupby("kernel")["score_at_1"].mean().to_dict()
        print(name, rounded(found["choices"][-1], 3), flush=True)
    found["choices"].append({"columns": "analytic time, nothing learned", **summary(study.by_time())})
    header = list(found["choices"][0])
    print(markdown_table(header, [[rounded(row[name], 3) for name in header] for row in found["choices"]]))
    if args.json:
        write_json(args.json, rounded(found))


@dataclass(frozen=True)
class Study:
    """Rows that are judged, and the columns that they may be chosen by.

    Attributes:
        data: The dataset.
        known: What each row is of.
        tables: Features by what they are of.
    """

    data: Dataset
    known: Known
    tables: Mapping[str, FeatureTable]

    @classmethod
    def of(cls, data: Dataset, read: Mapping[str, ReadFacts]) -> "Study":
        """Extract all features."""
        candidate, platform = (data.rows[name].to_numpy() for name in ("candidate", "platform"))
        platforms = [data.platforms[i] for i in platform]
        told = list(data.candidates)
        launched = [_launch_alone(each) for each in told]
        facts = [read.get(each.candidate_id) for each in told]
        first = [None if each is None else _without_layouts(each) for each in facts]
        tables = {
            "formulas": extract([told[i] for i in candidate], platforms),
            "launch": extract([launched[i] for i in candidate], platforms),
            "ttgir": extract_read([facts[i] for i in candidate], platforms),
            "ttir": extract_read([first[i] for i in candidate], platforms),
        }
        return cls(data, Known.of(data), tables)

    @property
    def columns(self) -> dict[str, NDArray[Any] | None]:
        """``(n, d)`` columns of each kind; None for a random choice."""
        of = {name: self._varying(table) for name, table in self.tables.items()}
        launch = of["launch"]
        return {
            "none: a random choice": None,
            "launch": launch,
            "launch, formulas of the authors": of["formulas"],
            "launch, read (first dialect)": np.hstack([launch, of["ttir"]]),
            "launch, read (both dialects)": np.hstack([launch, of["ttgir"]]),
            f"launch, read (both dialects), {ON_TOP}": np.hstack([launch, of["ttgir"]]),
            "launch, formulas, read": np.hstack([of["formulas"], of["ttgir"]]),
        }

    def _varying(self, table: FeatureTable) -> NDArray[Any]:
        """Columns of configs and launches, less their means over the task; those of families are left out."""
        at = [
            i for i in table.indices("launch", "ir") if "/" not in table.columns[i].name.removeprefix("ir/")
        ]
        values = pd.DataFrame(table.values[:, at])
        task = self.data.rows["task"].to_numpy()
        centred = (values - values.groupby(task).transform("mean")).to_numpy(np.float32)
        return centred[:, np.nan_to_num(np.abs(centred)).max(axis=0) > 0]

    def judge(self, X: NDArray[Any], args: argparse.Namespace, *, on_top: bool) -> pd.DataFrame:
        """Judge the choices of several models in each task, on average.

        Args:
            X: Columns.
            args: How many models, and how large.
            on_top: Whether they learn what the analytic time leaves, and not all.
        """
        known = self._centred(np.log(2.0) * self.log2_time) if on_top else np.zeros(len(X))
        found = [
            judge_scores(self.data.rows, self._predicted(X, known, seed, args.trees))
            for seed in range(args.seeds)
        ]
        return self._named(pd.concat(found))

    @property
    def log2_time(self) -> NDArray[Any]:
        """``(n,)`` log2 of the analytic time."""
        table = self.tables["ttgir"]
        return table.values[:, table.index("ir/log2_total_s")]

    def _centred(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values less their mean over the task."""
        column = pd.Series(values)
        return (column - column.groupby(self.data.rows["task"].to_numpy()).transform("mean")).to_numpy()

    def at_random(self) -> pd.DataFrame:
        """Judge a random choice."""
        return self._named(judge_scores(self.data.rows, np.zeros(len(self.data.rows))))

    def by_time(self) -> pd.DataFrame:
        """Judge the choice of the shortest analytic time."""
        return self._named(judge_scores(self.data.rows, -self.log2_time))

    def _named(self, tasks: pd.DataFrame) -> pd.DataFrame:
        kernels = dict(zip(self.data.rows["task"], self.known.kernel, strict=True))
        scores = ["score_at_1", "score_at_8"]
        mean = tasks.groupby("task", observed=True)[scores].mean().reset_index()
        return mean.assign(kernel=[kernels[each] for each in mean["task"]])

    def _predicted(self, X: NDArray[Any], known: NDArray[Any], seed: int, trees: int) -> NDArray[Any]:
        """Scores of each row, by a model that saw no row of its kernel and begins from what is known."""
        latency_s = self.data.rows["latency_s"].to_numpy()
        y = self._centred(np.log(np.where(np.isfinite(latency_s), latency_s, np.nan)))
        score = np.full(len(y), np.nan)
        for fold in kernel_folds(self.known):
            train = fold.train[np.isfinite(y[fold.train])]
            kernel = self.known.kernel[train]
            weight = 1.0 / pd.Series(kernel).map(pd.Series(kernel).value_counts()).to_numpy()
            model = XGBRegressor(n_estimators=trees, random_state=seed, **_TREE)
            model.fit(X[train], y[train] - known[train], sample_weight=weight / weight.mean())
            score[fold.test] = -model.predict(X[fold.test]) - known[fold.test]
        return score


def on_parts(data: Dataset, sms: Sequence[int]) -> Dataset:
    """The measurements on parts of so many SMs."""
    there = np.isin([each.sms_granted for each in data.platforms], sms)
    chosen: Dataset = with_rows(data, there[data.measurements["platform"]])
    return chosen


def _launch_alone(candidate: Candidate) -> Candidate:
    """A candidate of which no author says what it does: grid and threads alone are known."""
    launches = tuple(KernelLaunch(each.blocks, each.threads_per_block) for each in candidate.launches)
    return Candidate(candidate.workload, candidate.space, candidate.config, launches)


def _without_layouts(facts: ReadFacts) -> ReadFacts:
    """What the first dialect tells."""
    return ReadFacts(
        **{name: getattr(facts, name) for name in READ_FACTS if not name.startswith(_OF_LAYOUTS)}
    )


def summary(tasks: pd.DataFrame) -> dict[str, float]:
    """Best / chosen over all tasks: median, mean and 10th percentile, of the first and the best of eight."""
    found: dict[str, float] = {"tasks": len(tasks)}
    for k in (1, 8):
        score = tasks[f"score_at_{k}"]
        found |= {
            f"median@{k}": float(score.median()),
            f"mean@{k}": float(score.mean()),
            f"p10@{k}": float(score.quantile(0.1)),
        }
    return found


def time_reading(data: Dataset, count: int) -> dict[str, float]:
    """Seconds of one core a config: each dialect, which includes those before it, counting, and compiling."""
    from costmodel.kernels.triton._build import build_triton_family, prepare_reading
    from costmodel.kernels.triton._lower import lower_kernel
    from costmodel.kernels.triton._read import read_texts
    from costmodel.kernels.triton._source import TritonSource

    source, spent = TritonSource(), dict[str, list[float]]()
    every = [candidate for candidate in data.candidates if source.is_of(candidate)]
    for candidate in every[:: max(1, len(every) // count)]:
        family = source.family_of(candidate)
        lowering, launch = prepare_reading(family, candidate, "sm_90")
        texts = lower_kernel(lowering)  # what Triton does once for a kernel is not on the time
        with TemporaryDirectory() as folder:
            steps = {
                "ttir_s": partial(lower_kernel, lowering.first_dialect),
                "ttgir_s": partial(lower_kernel, lowering),
                "counting_s": partial(read_texts, texts, launch),
                "compiling_s": partial(build_triton_family, family, candidate, "sm_90", Path(folder)),
            }
            for name, step in steps.items():
                start = core_s()
                step()
                spent.setdefault(name, []).append(core_s() - start)
    return {name: float(np.median(each)) for name, each in spent.items()}


def core_s() -> float:
    """Seconds of cores so far, with those of processes that ended, such as NVIDIA's assembler."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    main()
