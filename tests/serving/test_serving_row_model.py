"""The model of rows: what it sees of a config, and what it refuses."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from costmodel.errors import CostModelError
from costmodel.records import Workload, find_device
from costmodel.serving._kernel import ExpertProducts, ScaledProduct
from costmodel.serving._row_model import RowModel, shipped_rows
from costmodel.serving._terms import COLUMNS, product_of, row_columns

pytestmark = pytest.mark.white_box

H100 = find_device("NVIDIA H100 80GB HBM3")
EXPERTS = ExpertProducts(8, 2, 7168, 4096)
ROWS = np.array([[16, 64, 128, 1, 4, 4], [64, 64, 32, 8, 4, 3], [128, 256, 64, 16, 8, 3]])
NAMES = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages")


def columns(sms: int = 132, rows: np.ndarray = ROWS, tokens: int = 64) -> dict[str, np.ndarray]:
    product = product_of(EXPERTS.workloads(tokens)[0])
    assert product
    return dict(zip(COLUMNS, row_columns(product, rows, sms, H100).T, strict=True))


def test_tiles_are_those_of_the_tokens_of_each_expert() -> None:
    product = product_of(Workload.parse("triton.fused_moe-t64-e8-k2-n7168-d4096-s50"))
    assert product
    assert product.counts.sum() == 64 * 2
    assert len(product.counts) == 8
    tiles = np.ceil(product.counts / 16).sum() * (2 * 7168 / 64)
    assert columns()["tiles"][0] == pytest.approx(np.log2(tiles), abs=1e-5)
    scaled = product_of(ScaledProduct(2112, 7168).workloads(33)[0])
    assert scaled
    assert (scaled.counts.tolist(), scaled.columns, scaled.depth) == ([33], 2112, 7168)
    assert product_of(Workload.parse("triton.rope-m64-h8-d64")) is None


def test_a_config_is_seen_the_same_whatever_is_asked_beside_it() -> None:
    together = columns()
    for i in range(len(ROWS)):
        alone = columns(rows=ROWS[i : i + 1])
        assert all(alone[name][0] == together[name][i] for name in COLUMNS)


def test_fewer_sms_take_longer() -> None:
    assert (columns(sms=16)["total"] > columns(sms=132)["total"]).all()
    assert (columns(tokens=1024)["total"] > columns(tokens=64)["total"]).all()


def test_the_model_tells_a_config_that_everybody_would_refuse() -> None:
    """Sixteen rows a tile at 4,096 tokens of eight experts read every weight again and again."""
    rows = [dict(zip(NAMES, row, strict=True)) for row in ([16, 32, 64, 1, 4, 3], [128, 256, 64, 16, 8, 3])]
    model = shipped_rows()
    small, large = model.compare(EXPERTS, 4096, rows, 132, H100)
    assert small > large + model.margin_of(EXPERTS)
    assert model.knows(EXPERTS, H100)
    assert not model.knows(EXPERTS, find_device("NVIDIA L40S"))


def test_a_file_whose_arrays_do_not_fit_is_refused(tmp_path: Path) -> None:
    model, file = shipped_rows(), tmp_path / "model.npz"
    model.save(file)
    assert np.array_equal(RowModel.load(file).leaves, model.leaves)
    for name, array in (("leaves", model.leaves[:, 1:]), ("margins", model.margins * np.nan)):
        with pytest.raises(CostModelError, match="must fit one another"):
            replace(model, **{name: array})
