"""The experiment on products: what is measured, how others choose, and what trees are made of."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from experiment_folder import found_beside

from costmodel.learners._complete_trees import walk_trees
from costmodel.products import Kernel, Product
from costmodel.products._columns import COLUMNS

xgb = pytest.importorskip("xgboost")
FOLDER = Path(__file__).parents[2] / "experiments" / "products"
with found_beside(FOLDER, ["candidates", "judge", "rules", "shapes", "study"]):
    import candidates
    import judge
    import rules
    import shapes
    import study

pytestmark = pytest.mark.white_box

PRODUCT = Product(1024, 1024, 4096)
TORCH, TOLD, UNTOLD = Kernel("torch"), Kernel("cublaslt", "told"), Kernel("cublaslt", position=0)
WIDE = Kernel("triton", "plain", 128, 256, 64, 3, 8)  # 32 tiles
SQUARE = Kernel("triton", "plain", 128, 128, 64, 4, 8)  # 64 tiles
SMALL = Kernel("triton", "plain", 64, 64, 64, 4, 4)  # 256 tiles
KERNELS = [TORCH, TOLD, Kernel("cublaslt", "told", position=1), UNTOLD, WIDE, SQUARE, SMALL]


def chosen(rule: rules.Rule, sms: int) -> list[Kernel]:
    scores = rule(PRODUCT, KERNELS, sms)
    return [kernel for kernel, score in zip(KERNELS, scores, strict=True) if score == np.nanmax(scores)]


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


def test_the_nearest_shape_lends_its_best_kernel() -> None:
    near, far = Product(1024, 1024, 2048), Product(16, 1024, 4096)
    rule = rules.NearestShape([near, far, near], [32, 32, 8], [[SQUARE, TOLD], [SMALL], [TORCH]])
    assert chosen(rule, 32) == [SQUARE]
    assert chosen(rule, 8) == [TORCH]
    assert np.isnan(rule(PRODUCT, KERNELS, 64)).all()


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
    measured = study.gather(table)
    assert measured.sms == [8, 16]
    assert measured.kernels[measured.task(0)] == [
        TORCH,
        Kernel("triton", "plain", *tiled.values()),
        Kernel("cublaslt", "told", 128, 128, 64, 6, 8, 8, 2, 0, 1, 66, 0, 2),
    ]
    assert study.without_lists(measured.kernels)[2] == Kernel("cublaslt", "told", position=1)
    assert study.weigh(measured).tolist()[:2] == pytest.approx([0.5**1.5, 1])
