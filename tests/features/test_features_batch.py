"""A batch gives each of its configs the features that it has alone, lowered or not."""

import msgspec
import numpy as np
import pytest
from fake_records import fake_candidate
from recorded_kernels import recorded_candidates

from costmodel.features import extract
from costmodel.features._extract import COLUMNS, extract_batch
from costmodel.kernels.metaschedule._estimate import estimate_launches
from costmodel.records import Candidate, Config, Workload
from costmodel.records._candidate import ConfigBatch, config_batches
from costmodel.testing import landscape_platform

pytestmark = pytest.mark.white_box

PLATFORM = landscape_platform(32)


@pytest.fixture(scope="module")
def sample() -> list[Candidate]:
    """A hundred recorded candidates, a few of each kind and sketch."""
    return recorded_candidates()[::97]


def launch_columns() -> list[int]:
    return [i for i, column in enumerate(COLUMNS) if column.group == "launch"]


def test_rows_do_not_depend_on_batch_mates_or_order(sample) -> None:
    together = extract(sample, [PLATFORM] * len(sample)).values
    order = np.random.default_rng(0).permutation(len(sample))
    shuffled = extract([sample[i] for i in order], [PLATFORM] * len(sample)).values
    alone = np.vstack([extract([candidate], [PLATFORM]).values for candidate in sample])
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(together[order], shuffled)


def test_a_batch_has_the_features_of_its_candidates(sample) -> None:
    for rows, batch in config_batches(sample):
        members = [sample[i] for i in rows]
        expected = extract(members, [PLATFORM] * len(members))
        table = extract_batch(batch, PLATFORM)
        assert table.columns == expected.columns
        np.testing.assert_array_equal(table.values, expected.values)


def test_a_kernel_has_the_same_features_before_it_is_lowered(sample) -> None:
    never_lowered = [msgspec.structs.replace(candidate, launches=()) for candidate in sample]
    before = extract(never_lowered, [PLATFORM] * len(sample)).values
    np.testing.assert_array_equal(before, extract(sample, [PLATFORM] * len(sample)).values)
    assert not np.isnan(before[:, launch_columns()[:4]]).any()


def test_lowered_facts_are_an_option_and_agree(sample) -> None:
    exact = [candidate for candidate in sample if "tensor_tile.C.m" not in candidate.config.decisions]
    lowered = extract(exact, [PLATFORM] * len(exact), launches="lowered").values
    np.testing.assert_array_equal(lowered, extract(exact, [PLATFORM] * len(exact)).values)
    never_lowered = msgspec.structs.replace(exact[0], launches=())
    missing = extract([never_lowered], [PLATFORM], launches="lowered").values[0, launch_columns()]
    assert np.isnan(missing).sum() > 20


def test_recorded_facts_stand_in_where_decisions_tell_none() -> None:
    bare = fake_candidate()
    assert np.isnan(estimate_launches(ConfigBatch.from_configs(bare.workload, [bare.config]))["blocks"]).all()
    tables = [extract([bare], [PLATFORM], launches=choice).values for choice in ("estimated", "lowered")]
    np.testing.assert_array_equal(*tables)
    assert np.isfinite(tables[0][0, launch_columns()[0]])


def test_foreign_kernels_have_no_batch_features() -> None:
    batch = ConfigBatch.from_configs(Workload("suite.conv", {"x": 8}, ""), [Config({"block": 3})])
    assert all(np.isnan(values).all() for values in estimate_launches(batch).values())
    with pytest.raises(ValueError, match=r"must be an operator, but got the foreign kernel suite\.conv"):
        extract_batch(batch, PLATFORM)


def test_columns_come_back_as_configs(sample) -> None:
    for rows, batch in config_batches(sample):
        assert batch.configs() == [sample[i].config for i in rows]
        assert batch.take(np.array([0])).configs() == [sample[rows[0]].config]


def test_columns_must_have_a_row_for_each_config_and_one_set_of_decisions() -> None:
    workload = Workload.parse("matmul-m4-n4-k4")
    with pytest.raises(ValueError, match=r"each decision must have 2 rows, but got \{'a': 1\}"):
        ConfigBatch(workload, 2, {"a": np.zeros(1)})
    with pytest.raises(ValueError, match=r"all configs must decide \['a'\]"):
        ConfigBatch.from_configs(workload, [Config({"a": 1}), Config({"b": 1})])


def test_no_two_workloads_look_the_same() -> None:
    first = {candidate.workload: candidate for candidate in recorded_candidates()}
    workloads, candidates = list(first), list(first.values())
    table = extract(candidates, [PLATFORM] * len(candidates))
    described = {tuple(row) for row in table.values[:, table.indices("workload")]}
    assert len(workloads) > 70
    assert len(described) == len(workloads)
