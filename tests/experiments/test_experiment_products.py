"""The experiment on products: what is measured, how others choose, and what trees are made of."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from experiment_folder import found_beside

from costmodel.learners._complete_trees import walk_trees
from costmodel.products import Kernel
from costmodel.products._columns import COLUMNS
from costmodel.products._measured import gather, without_lists

xgb = pytest.importorskip("xgboost")
FOLDER = Path(__file__).parents[2] / "experiments" / "products"
with found_beside(FOLDER, ["candidates", "judge", "rules", "shapes", "study"]):
    import candidates
    import judge
    import shapes
    import study

pytestmark = pytest.mark.white_box

TORCH = Kernel("torch")


def test_shapes_differ_and_come_in_one_order_by_chance() -> None:
    every = shapes.list_shapes()
    assert every == shapes.list_shapes()
    assert len(set(every)) == len(every) > 2000
    assert {shape.family for shape in every[:200]} == {name for names in judge.FAMILIES for name in names}
    assert {shape.dtype for shape in every} == set(study.OPERAND_BYTES)
    assert max(shape.product.flops for shape in every) <= shapes.MOST_FLOPS


def test_few_variants_of_machine_code_serve_most_shapes() -> None:
    counts = [count for _, count in candidates.list_variants(shapes.list_shapes()[:300], (8, 132))]
    assert sum(counts[: len(counts) // 2]) > 0.75 * sum(counts)


def test_complete_trees_say_what_the_booster_says() -> None:
    draw = np.random.default_rng(0)
    X = draw.normal(size=(400, len(COLUMNS))).astype(np.float32)
    booster = study.fit_trees(X, X[:, 0] * (X[:, 1] > 0), np.ones(400), 0, trees=20)
    expected = booster.predict(xgb.DMatrix(X))
    assert walk_trees(X, *study.complete(booster)) == pytest.approx(expected, abs=5e-3)


def test_rows_of_a_task_come_together_and_a_product_of_two_models_once() -> None:
    shape = {"family": "llama", "m": 8, "n": 64, "k": 64, "batch": 1, "dtype": "float16", "layout": "nt"}
    row = {**shape, "epilogue": "", "sms": 8, "backend": "torch", "kind": "", "seconds": 2e-6}
    tiled = {"block_m": 16, "block_n": 64, "block_k": 64, "stages": 3, "warps": 4, "group_m": 8, "splits": 1}
    listed = {"position": 1, "lt_id": 66, "lt_tile": 20, "lt_stages": 35, "lt_splits": 2}
    table = pd.DataFrame(
        [
            row,
            {**row, "backend": "triton", "kind": "plain", "seconds": 1e-6, **tiled, "per_sm": 0},
            {**row, "backend": "cublaslt", "kind": "told", **listed, "lt_custom": -1, "lt_cluster": 2},
            {**row, "sms": 16},
            {**row, "family": "bert"},
        ]
    ).fillna(dict.fromkeys([*tiled, *listed, "per_sm", "lt_custom", "lt_cluster"], 0))
    measured = gather(table)
    assert measured.sms == [8, 16]
    assert measured.kernels[measured.task(0)] == [
        TORCH,
        Kernel("triton", "plain", *tiled.values()),
        Kernel("cublaslt", "told", 128, 128, 64, 6, 8, 8, 2, 0, 1, 66, 0, 2),
    ]
    assert without_lists(measured.kernels)[2] == Kernel("cublaslt", "told", position=1)
    assert study.weigh(measured).tolist()[:2] == pytest.approx([0.5**1.5, 1])
