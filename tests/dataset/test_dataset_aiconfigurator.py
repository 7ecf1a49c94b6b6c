"""Tables of AIConfigurator: read, checked for what its authors list as wrong, and made into a dataset.

The tables here are written by the tests in the layout of the package; the last test reads the package itself
where it is installed.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from costmodel.cli._app import app
from costmodel.dataset import ReadOptions, build_dataset, load_dataset
from costmodel.dataset.importers._aiconfigurator import (
    APART,
    IMPOSSIBLE,
    SPIKE,
    CallTable,
    find_tables,
)
from costmodel.dataset.importers._read import read_source
from costmodel.dataset.publish._card import CardHeader
from costmodel.errors import CostModelError
from costmodel.records._library_calls import CALL_KINDS

pytestmark = pytest.mark.white_box

FRAMEWORKS = ("sglang", "trtllm", "vllm")


def gemm_rows(framework: str, dtype: str = "bfloat16", slower: float = 1.0) -> pd.DataFrame:
    sizes = [(m, n, k) for m in (1, 16, 64, 256, 1024) for n in (512, 1024, 4096) for k in (512, 2048)]
    m, n, k = np.array(sizes).T
    return pd.DataFrame(
        {
            "framework": framework.upper(),
            "version": "1.0",
            "device": "NVIDIA H100 80GB HBM3",
            "op_name": "gemm",
            "kernel_source": f"{framework}_linear",
            "gemm_dtype": dtype,
            "m": m,
            "n": n,
            "k": k,
            "latency": slower * (3e-3 + 2.0 * m * n * k / 600e12 * 1e3 + n * k * 2 / 3e12 * 1e3),
        }
    )


def write(root: Path, table: str, framework: str, rows: pd.DataFrame, gpu: str = "h100_sxm") -> Path:
    folder = root / "systems" / "data" / gpu / table / framework / "1.0"
    folder.mkdir(parents=True, exist_ok=True)
    rows.to_parquet(folder / f"{table}_perf.parquet")
    return folder / f"{table}_perf.parquet"


def test_a_table_becomes_measurements_of_calls(tmp_path: Path) -> None:
    contents = read_source(write(tmp_path, "gemm", "vllm", gemm_rows("vllm")))
    found = {each.candidate.workload.name: each for each in contents.measurements}
    assert len(found) == 30
    assert not contents.rejects
    one = found["aiconfigurator.gemm.bfloat16-m64-n512-k2048"]
    assert one.platform.device.sms == 132
    assert one.platform.software["vllm"] == "1.0"
    assert one.candidate.config.decisions == {"framework": "vllm", "version": "1.0", "kernel": "vllm_linear"}
    launch = one.candidate.launches[0]
    assert launch.flops == 2 * 64 * 512 * 2048
    assert launch.global_load_bytes == 2 * (64 * 2048 + 512 * 2048)
    assert launch.global_store_bytes == 2 * 64 * 512


def test_rows_that_cannot_be_believed_are_rejected_and_their_neighbours_are_not(tmp_path: Path) -> None:
    rows = gemm_rows("vllm")
    is_spike = (rows.m == 64) & (rows.n == 1024) & (rows.k == 512)
    rows.loc[is_spike, "latency"] *= 4
    is_slow_at_the_end = (rows.m == 1024) & (rows.n == 1024) & (rows.k == 512)  # one neighbour proves nothing
    rows.loc[is_slow_at_the_end, "latency"] *= 4
    is_impossible = (rows.m == 1024) & (rows.n == 4096) & (rows.k == 2048)
    rows.loc[is_impossible, "latency"] = 1e-3
    table = CallTable.read(write(tmp_path, "gemm", "vllm", rows))
    assert table.rows.index[table.rows["reason"] == SPIKE].tolist() == rows.index[is_spike].tolist()
    assert table.rows.index[table.rows["reason"] == IMPOSSIBLE].tolist() == rows.index[is_impossible].tolist()


def test_products_that_are_slow_in_one_framework_only_are_rejected(tmp_path: Path) -> None:
    for framework in FRAMEWORKS:
        slower = 4.0 if framework == "vllm" else 1.0
        both = [gemm_rows(framework), gemm_rows(framework, "fp8_block", slower)]
        write(tmp_path, "gemm", framework, pd.concat(both, ignore_index=True))
    doubted = {}
    for path in find_tables(folder=tmp_path):
        rows = CallTable.read(path).rows
        doubted[path.parts[-3]] = set(rows.gemm_dtype[rows.reason == APART])
    assert doubted == {"sglang": set(), "trtllm": set(), "vllm": {"fp8_block"}}


def test_a_share_keeps_the_same_shapes_of_every_table(tmp_path: Path) -> None:
    paths = [write(tmp_path, "gemm", name, gemm_rows(name)) for name in FRAMEWORKS]
    parts = [CallTable.read(path).part(0.3).rows for path in paths]
    shapes = [set(zip(part.m, part.n, part.k, strict=True)) for part in parts]
    assert shapes[0] == shapes[1] == shapes[2]
    assert 0 < len(shapes[0]) < 30


def test_a_dataset_of_an_imported_package(tmp_path: Path, header: CardHeader) -> None:
    for framework in FRAMEWORKS:
        write(tmp_path, "gemm", framework, gemm_rows(framework))
    report = build_dataset(
        find_tables(["gemm"], folder=tmp_path),
        tmp_path / "out",
        header=header,
        options=ReadOptions(share=0.5),
    )
    data = load_dataset(tmp_path / "out")
    assert report.measurements == len(data.rows) > 0
    assert report.measurements % len(FRAMEWORKS) == 0


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    write(tmp_path, "gemm", "vllm", gemm_rows("vllm"))
    with pytest.raises(CostModelError, match="Each GPU must be one of h100_sxm, but got a100"):
        find_tables(gpus=["a100"], folder=tmp_path)
    with pytest.raises(CostModelError, match="Each table must be one of gemm"):
        find_tables(["conv"], folder=tmp_path)
    other = write(tmp_path, "mhc", "vllm", gemm_rows("vllm"))
    with pytest.raises(CostModelError, match="what other calls do is not known"):
        read_source(other)


def test_an_unknown_package_is_refused(tmp_path: Path) -> None:
    card = tmp_path / "card.toml"
    card.touch()
    arguments = ["dataset", "import", "perfdb", "--out", str(tmp_path / "out"), "--card", str(card)]
    result = CliRunner().invoke(app, arguments)
    assert "PACKAGE must be one of aiconfigurator" in result.output


def sizes(**values: float) -> dict[str, np.ndarray]:
    return {name: np.array([value], dtype=float) for name, value in values.items()}


def test_attention_counts_what_a_query_sees() -> None:
    kind = CALL_KINDS["context_attention"]
    shape = {"batch_size": 1, "num_heads": 1, "num_key_value_heads": 1, "head_dim": 1}
    types = ("bfloat16", "bfloat16")

    def pairs(queries: int, before: int, window: int) -> float:
        work = kind.work(sizes(**shape, isl=queries, step=before, window_size=window), types)
        return float(work.flops[0]) / 4

    def counted(queries: int, before: int, window: int) -> int:
        seen = [before + i + 1 for i in range(queries)]
        return sum(min(each, window) if window else each for each in seen)

    for queries, before, window in [(1, 0, 0), (7, 5, 0), (9, 0, 4), (9, 2, 4), (9, 6, 4), (3, 2, 100)]:
        assert pairs(queries, before, window) == counted(queries, before, window)


def test_experts_without_a_token_are_not_read() -> None:
    kind = CALL_KINDS["moe"]
    shape = {
        "hidden_size": 8,
        "inter_size": 16,
        "topk": 2,
        "num_experts": 32,
        "moe_tp_size": 1,
        "moe_ep_size": 1,
    }
    few = kind.work(sizes(**shape, num_tokens=3), ("bfloat16", "balanced"))
    many = kind.work(sizes(**shape, num_tokens=300), ("bfloat16", "balanced"))
    assert few.copies[0] == 6
    assert many.copies[0] == 32
    assert few.flops[0] == 2 * 3 * 8 * 16 * 6


@pytest.mark.skipif(find_spec("aiconfigurator_core") is None, reason="aiconfigurator-core is not installed")
def test_the_rows_that_its_authors_list_are_found() -> None:
    """Block-fp8 of one framework holds the packing of weights, on every GPU that measured it."""
    doubted = []
    for path in find_tables(["gemm"], ["h100_sxm", "l40s"]):
        rows = CallTable.read(path).rows
        doubted += [
            (path.parts[-5], path.parts[-3], name) for name in set(rows.gemm_dtype[rows.reason == APART])
        ]
    assert sorted(doubted) == [("h100_sxm", "vllm", "fp8_block"), ("l40s", "vllm", "fp8_block")]
