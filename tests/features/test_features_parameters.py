"""Columns of families: of configs one by one, of a batch, and of a whole space."""

import numpy as np
import pytest

from costmodel.features import extract
from costmodel.features._extract import COLUMNS, extract_batch
from costmodel.features._parameters import parameter_columns
from costmodel.features._table import in_columns
from costmodel.records import Candidate, Config, Device, Platform, Workload
from costmodel.records._candidate import ConfigBatch
from costmodel.records._platform import part_of

pytestmark = pytest.mark.white_box

PLATFORM: Platform = part_of(Device("a GPU", "cuda", "sm_90", 132, 1980.0, 3350.0), 32)
CONFIGS = [Config({"call": call, "tile": tile}) for call in ("eager", "fused") for tile in (4, 0, 64)]


def candidates(workload: Workload, space: str) -> list[Candidate]:
    return [Candidate(workload, space, config) for config in CONFIGS]


def test_a_batch_has_the_columns_of_its_candidates() -> None:
    for workload in (Workload.parse("matmul-m64-n64-k64"), Workload.parse("cuda.own-m64")):
        kernels = candidates(workload, "cuda-own-0123abcd")
        assert {kernel.family for kernel in kernels} == {"cuda.own"}
        one_by_one = extract(kernels, [PLATFORM] * len(kernels))
        batch = ConfigBatch.from_configs(workload, CONFIGS)
        together = extract_batch(batch, PLATFORM, family="cuda.own")
        assert one_by_one.columns == together.columns
        np.testing.assert_allclose(one_by_one.values, together.values)


def test_a_space_has_the_columns_of_every_choice() -> None:
    workload = Workload.parse("matmul-m64-n64-k64")
    names = [c.name for c in parameter_columns(workload, "cuda.own", {"call": ("eager", "fused"), "tile": 3})]
    assert names == ["cuda.own/", "cuda.own/call=eager", "cuda.own/call=fused", "cuda.own/tile"]
    few = ConfigBatch.from_configs(workload, CONFIGS[:3])  # no config of them is fused
    table = extract_batch(few, PLATFORM, family="cuda.own")
    whole = in_columns(table, [column.name for column in COLUMNS] + names)
    assert (whole[:, -2] == 0.0).all()
    np.testing.assert_allclose(whole[:, -1], np.log2([5.0, 1.0, 65.0]))


def test_families_are_told_apart_and_metaschedule_has_none() -> None:
    workload = Workload.parse("matmul-m64-n64-k64")
    mixed = [
        *candidates(workload, "cuda-own-0123abcd")[:1],
        *candidates(workload, "library-cuda-0123abcd")[:1],
        Candidate(workload, "metaschedule-cuda-0123abcd", Config({"sketch": 0})),
    ]
    assert [each.family for each in mixed] == ["cuda.own", "library.cuda", ""]
    assert [each.source for each in mixed] == ["cuda", "library", "metaschedule"]
    table = extract(mixed, [PLATFORM] * 3)
    at = {column.name: i for i, column in enumerate(table.columns)}
    assert table.values[:, at["cuda.own/"]].tolist() == [1.0, 0.0, 0.0]
    assert np.isnan(table.values[1:, at["cuda.own/tile"]]).all()
