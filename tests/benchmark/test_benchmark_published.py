"""Entries that others published: their formulas by hand, and what they make of small questions."""

import json
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from costmodel.benchmark._entry import open_entry, shipped_entries
from costmodel.benchmark._question import BenchQuestion
from costmodel.benchmark.entries import _product_rules as rules
from costmodel.benchmark.entries._gptune import GPTune
from costmodel.benchmark.entries._habitat import Habitat, memory_bound
from costmodel.benchmark.entries._nearest_shape import NearestShape
from costmodel.benchmark.entries._products import ProductRule, nearest_known
from costmodel.benchmark.entries._trees import TvmTrees
from costmodel.benchmark.entries._wavetune import WaveTune, fit_bilinear
from costmodel.columns import Column
from costmodel.errors import CostModelError
from costmodel.products import Kernel, Product

pytestmark = pytest.mark.white_box

PRODUCT = Product(1024, 1024, 4096)
TORCH, TOLD, UNTOLD = Kernel("torch"), Kernel("cublaslt", "told"), Kernel("cublaslt")
WIDE = Kernel("triton", "plain", 128, 256, 64, 3, 8)  # 32 tiles
SQUARE = Kernel("triton", "plain", 128, 128, 64, 4, 8)  # 64 tiles
SMALL = Kernel("triton", "plain", 64, 64, 64, 4, 4)  # 256 tiles
KERNELS = [TORCH, TOLD, Kernel("cublaslt", "told", position=1), UNTOLD, WIDE, SQUARE, SMALL]


def chosen(rule: rules.Rule, sms: int) -> list[Kernel]:
    scores = rule(PRODUCT, KERNELS, sms)
    return [kernel for kernel, score in zip(KERNELS, scores, strict=True) if score == np.nanmax(scores)]


def ask(name: str, rows: pd.DataFrame, features: dict[str, object], group: str = "launch") -> BenchQuestion:
    """A question of these rows, which lack what no entry of these tests looks at."""
    columns = tuple(Column(each, "1", group) for each in features)
    return BenchQuestion(name, rows, np.column_stack([*features.values()]).astype(np.float64), columns)


def test_rules_of_products_choose_as_they_are_described() -> None:
    assert chosen(rules.torch_call, 32) == [TORCH]
    assert chosen(rules.cublaslt_told, 32) == [TOLD]
    assert chosen(rules.cublaslt_told, 132) == chosen(rules.cublaslt_untold, 32) == [UNTOLD]
    assert chosen(rules.deepgemm, 32) == [WIDE]  # one wave
    assert chosen(rules.deepgemm, 132) == [SQUARE]  # one wave too, and fuller
    assert chosen(rules.wave_quantisation, 32) == [WIDE]
    assert chosen(rules.helion, 32) == [WIDE]  # 128 x 256 fills one wave
    assert len(chosen(rules.origami, 32)) == 1


def test_the_nearest_shape_lends_its_best_kernel() -> None:
    near, far = Product(1024, 1024, 2048), Product(16, 1024, 4096)
    rule = NearestShape([near, far, near], [32, 32, 8], [[SQUARE, TOLD], [SMALL], [TORCH]])
    assert chosen(rule, 32) == [SQUARE]
    assert chosen(rule, 8) == [TORCH]
    assert np.isnan(rule(PRODUCT, KERNELS, 64)).all()


def test_waves_count_the_work_of_the_fullest_sm() -> None:
    wide, square = rules.wave_quantisation(PRODUCT, [WIDE, SQUARE], 48)
    # One wave of 32 tiles of 128 x 256, and two of 64 tiles of 128 x 128.
    assert wide == pytest.approx(-128 * 256, rel=1e-4)
    assert square == pytest.approx(-2 * 128 * 128, rel=1e-4)
    thin = Kernel("triton", "plain", 16, 64, 64, 4, 4)
    (thin_score,) = rules.wave_quantisation(Product(16, 64, 64), [thin], 48)
    assert thin_score == pytest.approx(
        -16 * 64 / (16 * 64 / 80 / 64), rel=1e-4
    )  # tiles of little reuse are slower


def test_cycles_of_origami_are_those_of_the_formula() -> None:
    one = Kernel("triton", "plain", 128, 128, 64, 4, 8)
    (score,) = rules.origami(Product(128, 128, 640), [one], 132)
    compute = 2 * 128 * 128 * 64 / 4096
    l2, memory = 5.5e12 / 1.755e9, 4.3e12 / 1.755e9 * 0.02
    loaded = 256 * 64 * 2
    load = max(loaded / (l2 / 132), 0.0 + loaded / memory + 700)  # one tile: nothing is found in L2
    ends = (1.5 * load + 2 * (128 * 128 * 2 / memory + compute)) * 0.95
    assert -score == pytest.approx(max(compute, load) * 9 + ends + 500 * 9)


def test_a_rule_answers_by_task_and_puts_last_what_it_does_not_know() -> None:
    rows = pd.DataFrame(
        {
            "role": "asked",
            "task": [f"{sms}" for sms in (32, 132) for _ in KERNELS],
            "workload": "product-m1024-n1024-k4096-b1-float16-nt-",
            "sms_granted": [sms for sms in (32, 132) for _ in KERNELS],
            "config": [json.dumps(kernel._asdict()) for _ in (32, 132) for kernel in KERNELS],
        }
    )
    question = ask("products", rows, {"x": np.zeros(len(rows))})
    entry = ProductRule("deepgemm", lambda _: rules.deepgemm, "")
    assert entry.can_answer(question)
    score = entry.answer(question).score.reshape(2, -1)
    assert [KERNELS[i] for i in score.argmax(axis=1)] == [WIDE, SQUARE]
    assert (score[:, :4] < score[:, 4:].min()).all()
    assert not entry.can_answer(ask("operators", rows, {"x": np.zeros(len(rows))}))
    unknown = ProductRule("none", lambda _: lambda *_: np.full(len(KERNELS), np.nan), "")
    assert np.ptp(unknown.answer(question).score) == 0.0  # what no rule knows is all alike
    told = rows.assign(role="known", latency_s=np.arange(len(rows))[::-1])
    assert chosen(nearest_known(ask("products", told, {"x": np.zeros(len(rows))})), 32) == [SMALL]


@pytest.mark.skipif(find_spec("nvMatmulHeuristics") is not None, reason="NVIDIA's library is installed")
def test_an_entry_whose_library_is_not_installed_says_what_to_install() -> None:
    with pytest.raises(CostModelError, match="pip install nvidia-matmul-heuristics"):
        open_entry("nvmatmul").answer(learnable(measured=0))


def test_bilinear_weights_are_those_that_made_the_latencies() -> None:
    waves, turns = np.meshgrid([1.0, 1.5, 3.0], [4.0, 16.0, 64.0])
    terms = np.stack([np.ones(9), waves.ravel(), turns.ravel(), (waves * turns).ravel()], axis=1)
    weights = np.array([3e-6, 0.0, 1e-8, 2e-7])
    assert fit_bilinear(terms, terms @ weights) == pytest.approx(weights, rel=1e-6, abs=1e-15)


def test_wavetune_knows_kernels_by_their_other_shapes() -> None:
    blocks, slabs = (
        each.ravel().astype(float) for each in np.meshgrid([16, 24, 32, 48, 64], [8, 16, 32, 64])
    )
    kinds = np.repeat([0.0, 1.0], len(blocks))
    blocks, slabs = np.tile(blocks, 2), np.tile(slabs, 2)
    waves = blocks / 16
    latency_s = np.where(kinds == 0, 2e-6 + 1e-7 * waves * slabs, 1e-6 + 3e-7 * np.sqrt(waves) * slabs)
    is_asked = (slabs == 32) & (blocks == 48)
    rows = pd.DataFrame(
        {"role": np.where(is_asked, "asked", "known"), "latency_s": np.where(is_asked, np.nan, latency_s)}
    )
    zeros = ("dtype", "block_m", "block_n", "block_k", "stages", "warps", "splits", "algorithm", "per_sm")
    features = {
        **dict.fromkeys((f"product/{name}" for name in zeros), np.zeros(len(rows))),
        "product/kind": kinds,
        "product/programs": np.log2(blocks),
        "product/slabs": np.log2(slabs),
        "product/log_sms": np.full(len(rows), 4.0),
        "product/waves": np.log2(np.ceil(waves)),
    }
    found = WaveTune().answer(ask("products", rows, features))
    assert found.latency_s is not None
    assert found.latency_s[0] == pytest.approx(latency_s[is_asked][0], rel=1e-3)  # the first kind is bilinear
    assert found.latency_s[1] == pytest.approx(latency_s[is_asked][1], rel=0.2)
    assert found.score.argmax() == found.latency_s.argmin()


def test_habitat_scales_by_sms_as_far_as_memory_does_not_bound_a_kernel() -> None:
    assert memory_bound(np.array([0.0, 0.5, 1.0, 2.0])).tolist() == [1.0, 0.75, 0.5, 0.25]
    # On the whole GPU of 128 SMs and on 32: a kernel of many waves, one of half a wave, and one that failed.
    names, count = {"device": "d", "workload": "w", "config": ["a", "b", "c"]}, 3
    whole = pd.DataFrame({**names, "role": "known", "sms_granted": 128, "latency_s": [1e-5, 2e-5, np.inf]})
    part = whole.assign(role="asked", sms_granted=32, latency_s=np.nan)
    rows = pd.concat([whole, part], ignore_index=True)
    features = {
        "log2_blocks": np.log2([512, 48, 512] * 2),
        "log2_fractional_waves": np.log2([4, 0.1, 4, 16, 0.5, 16]),
        "log2_intensity": np.full(2 * count, 5.0),  # half of the ridge: g is 0.75
        "log2_peak_flops": np.full(2 * count, 10.0),
        "log2_bandwidth": np.full(2 * count, 4.0),
    }
    found = Habitat().answer(ask("budgets", rows, features))
    assert found.latency_s[:2] == pytest.approx([1e-5 * 4**0.25, 2e-5 * 2**0.25])
    assert found.score.argmin() == 2
    for known in (whole.assign(workload="another"), whole.assign(latency_s=np.inf)):
        found = Habitat().answer(ask("budgets", pd.concat([known, part], ignore_index=True), features))
        assert np.isfinite(found.score).all()  # nothing ran on the whole GPU: no kernel is preferred
        assert np.ptp(found.score) == 0.0
        assert (found.latency_s > 0.0).all()


def learnable(measured: int) -> BenchQuestion:
    """Three tasks of one curve in a parameter at different levels; of the last little is known."""
    x = np.tile(np.linspace(-1.0, 1.0, 21), 3)
    task = np.repeat([0, 1, 2], 21)
    latency_s = np.exp(np.square(x - 0.3) + task) * 1e-5
    role = np.where(task < 2, "known", "asked").astype(object)
    role[42 + np.linspace(0, 20, measured, dtype=int)] = "measured"
    rows = pd.DataFrame(
        {"role": role, "task": task.astype(str), "latency_s": np.where(role == "asked", np.nan, latency_s)}
    )
    columns = (Column("log2_blocks", "1", "config"), Column("size", "1", "workload"))
    return BenchQuestion("few", rows, np.stack([x, task.astype(float)], axis=1), columns)


def test_gptune_carries_the_curve_of_other_tasks_over_to_a_few_measurements() -> None:
    question = learnable(measured=3)
    entry = GPTune()
    assert entry.can_answer(question)
    assert not entry.can_answer(learnable(measured=0))
    found = entry.answer(question)
    x = question.column("log2_blocks")[question.asked]
    truth = np.exp(np.square(x - 0.3) + 2) * 1e-5
    assert x[found.score.argmax()] == pytest.approx(0.3, abs=0.11)
    assert found.latency_s == pytest.approx(truth, rel=0.3)


def test_gptune_takes_the_nearest_task_where_no_measurement_ran() -> None:
    question = learnable(measured=1)
    question.rows.loc[question.measured, "latency_s"] = np.inf
    found = GPTune().answer(question)
    x = question.column("log2_blocks")[question.asked]
    assert x[found.score.argmax()] == pytest.approx(0.3, abs=0.11)


def test_tvms_trees_learn_the_share_of_the_best_throughput() -> None:
    pytest.importorskip("xgboost")
    question = learnable(measured=0)
    question.rows.loc[0, "latency_s"] = np.inf  # a failure has no throughput
    entry = TvmTrees()
    assert entry.can_answer(question)
    assert not entry.can_answer(learnable(measured=3))
    found = entry.answer(question)
    x = question.column("log2_blocks")[question.asked]
    assert x[found.score.argmax()] == pytest.approx(0.3, abs=0.11)
    assert found.score.max() == pytest.approx(1.0, abs=0.05)
    assert found.latency_s is None


def test_the_page_of_entries_has_a_row_for_each() -> None:
    page = (Path(__file__).parents[2] / "docs" / "benchmark-entries.md").read_text()
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    named = {name: "(extra)" in row for row in rows for name in re.findall("`(.+?)`", row)}
    assert named == {name: entry.is_extra for name, entry in shipped_entries().items()}
