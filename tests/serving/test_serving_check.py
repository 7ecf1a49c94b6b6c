"""Tables that are there already: which rows should be timed again."""

import json
from pathlib import Path

import pytest

from costmodel.errors import CostModelError
from costmodel.serving import check_tables
from costmodel.serving._forms import encode_table, published_tables
from costmodel.serving._kernel import ExpertProducts

pytestmark = pytest.mark.white_box

H100 = "NVIDIA H100 80GB HBM3"
NAME = "E=128,N=768,device_name=NVIDIA_H100_80GB_HBM3.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a table that a framework ships."""
    kernel = ExpertProducts(128, 0, 768, 0)
    shipped = [table.rows for table in published_tables() if (table.device, table.kernel) == (H100, kernel)]
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / NAME).write_bytes(encode_table("vllm", kernel, shipped[0], ""))
    return folder


def change(folder: Path, tokens: int, **config: int) -> None:
    file = folder / NAME
    rows = json.loads(file.read_text())
    rows[str(tokens)] |= config
    file.write_text(json.dumps(rows))


def test_rows_that_frameworks_ship_are_not_odd(folder: Path) -> None:
    found = check_tables(folder)
    assert (found.tables, found.rows, found.unjudged, found.doubts) == (1, 18, 0, ())


def test_rows_that_cannot_run_or_are_unlike_all_others_are_named(folder: Path) -> None:
    change(folder, 4096, BLOCK_SIZE_M=256, BLOCK_SIZE_N=256, BLOCK_SIZE_K=256, num_stages=5)
    change(folder, 1, BLOCK_SIZE_M=256, BLOCK_SIZE_N=256, BLOCK_SIZE_K=64, num_stages=2)
    first, last = check_tables(folder).doubts
    assert (first.tokens, last.tokens) == (1, 4096)
    assert "doublings from what" in first.reason
    assert "needs 1,310,720 bytes of shared memory, but there are 232,448" in last.reason


def test_a_table_may_be_asked_about_for_another_gpu(folder: Path) -> None:
    assert any("shared memory" in doubt.reason for doubt in check_tables(folder, "Tesla T4").doubts)


def test_tables_of_unknown_gpus_are_counted_but_not_judged(folder: Path) -> None:
    (folder / NAME).rename(folder / NAME.replace("NVIDIA_H100_80GB_HBM3", "AMD_Instinct_MI300X"))
    found = check_tables(folder)
    assert (found.rows, found.unjudged) == (18, 18)


def test_what_is_no_table_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match="must be a folder of tables, or a table, but there is none"):
        check_tables(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CostModelError, match="must hold tables of vLLM or SGLang"):
        check_tables(tmp_path / "empty")
    (folder / NAME).write_text('{"1": {"BLOCK_SIZE_M": 16}}')
    with pytest.raises(CostModelError, match="must be a table of configs"):
        check_tables(folder)


def test_rows_that_triton_refuses_are_named_and_one_table_may_be_given(folder: Path) -> None:
    change(folder, 8, BLOCK_SIZE_M=17, num_warps=3)
    (doubt,) = check_tables(folder / NAME).doubts
    assert doubt.reason == "Triton takes powers of two, but here is BLOCK_SIZE_M 17, num_warps 3"


def test_a_table_without_rows_or_sizes_is_none(folder: Path) -> None:
    (folder / NAME).write_text("{}")
    with pytest.raises(CostModelError, match="must be a table of configs"):
        check_tables(folder)
    (folder / NAME).rename(folder / NAME.replace("N=768", "N=0"))
    with pytest.raises(CostModelError, match="holds none"):
        check_tables(folder)
