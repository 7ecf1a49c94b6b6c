import json

import msgspec
import numpy as np
import pytest

from costmodel.errors import CostModelError
from costmodel.search import DispatchTable, load_dispatch_table
from costmodel.search._dispatch import dispatch_ranges
from costmodel.search._portfolio import BudgetRange
from costmodel.search._provenance import Provenance

pytestmark = pytest.mark.white_box

SMS = (8, 32, 64, 132)
LATENCIES = np.array([[4e-5, 2e-5, 1.6e-5, 1.5e-5], [9e-5, 3e-5, 1.1e-5, 1e-5], [8e-5, 1.6e-5, 1e-5, 2e-5]])
RANGES = (BudgetRange(0, 1, 0), BudgetRange(2, 3, 1))


def table_of(pool, latency_s=LATENCIES):
    kernels = pool.candidates[:3]
    return DispatchTable(
        workload=kernels[0].workload,
        device=pool.platforms[0].device,
        objective="worst-regret",
        ranges=dispatch_ranges(kernels, RANGES, latency_s, SMS, 132),
        provenance=Provenance("a runner", {"model": "none"}, "0" * 16, 60, 12),
    )


@pytest.fixture
def dispatch(pool):
    return table_of(pool)


def expected_at(sms, kernel):
    """Latency between budgets, straight lines over the logs."""
    return np.interp(np.log(sms), np.log(SMS), np.log(LATENCIES[kernel]))


def test_every_number_of_sms_has_the_kernel_that_is_expected_to_be_faster(dispatch, pool):
    for sms in range(1, 133):
        faster = expected_at(sms, 0) < expected_at(sms, 1) if 32 < sms < 64 else sms <= 32
        expected = pool.candidates[0 if faster else 1]
        assert dispatch.kernel_for(sms).config == expected.config, sms
    assert 40 < dispatch.ranges[1].from_sms < 60
    refused = {0: "sms must be a whole number of at least 1", 133: "serves 1 to 132 SMs .* but got 133"}
    for sms, message in refused.items():
        with pytest.raises(CostModelError, match=message):
            dispatch.kernel_for(sms)


@pytest.mark.parametrize("place", [(), ("ranges", 0), ("device",)])
def test_a_table_with_what_nobody_knows_is_refused(dispatch, tmp_path, place):
    """A later version may mean something by it that decides which kernel runs."""
    dispatch.save(tmp_path / "table.json")
    document = json.loads((tmp_path / "table.json").read_text())
    part = document
    for key in place:
        part = part[key]
    part["since"] = 1
    (tmp_path / "table.json").write_text(json.dumps(document))
    with pytest.raises(CostModelError, match="unknown field `since`"):
        load_dispatch_table(tmp_path / "table.json")


def test_a_kernel_that_fails_on_fewer_sms_serves_from_where_it_was_measured(pool):
    latency_s = LATENCIES.copy()
    latency_s[1, 1] = np.inf
    assert table_of(pool, latency_s).ranges[1].from_sms == 64


def test_a_kernel_that_is_faster_on_the_smaller_budget_too_begins_right_after_it(pool):
    latency_s = LATENCIES.copy()
    latency_s[1, 1] = 1.9e-5
    assert table_of(pool, latency_s).ranges[1].from_sms == 33


def test_regret_is_kept_by_measured_budget(dispatch):
    assert dispatch.ranges[0].regret == {8: 0.0, 32: pytest.approx(0.25)}
    assert dispatch.ranges[1].regret == {64: pytest.approx(0.1), 132: 0.0}


def test_a_file_gives_back_the_table(dispatch, tmp_path):
    path = tmp_path / "new" / "dispatch.json"
    dispatch.save(path)
    assert load_dispatch_table(path) == dispatch
    assert [file.name for file in path.parent.iterdir()] == ["dispatch.json"]


def shortened(document):
    document["ranges"][0]["to_sms"] = 40


def without_first(document):
    del document["ranges"][0]


def other_decision(document):
    document["ranges"][0]["config"]["decisions"]["invented"] = 1


def newer(document):
    document["schema_version"] = 2


def backwards(document):
    document["ranges"][0]["from_sms"] = 90


def without_latency(document):
    document["ranges"][1]["latency_s"] = {}


def with_more(document):
    document["notes"] = "hand-made"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (shortened, "one ends at 40 SMs and the next begins at"),
        (without_first, "must begin at 1 SM"),
        (other_decision, "config_id must be that of the decisions"),
        (newer, "schema_version must be 1, but got 2"),
        (backwards, "from_sms <= to_sms must hold"),
        (without_latency, "must hold the same measured SM budgets"),
        (with_more, "notes"),
    ],
)
def test_a_bad_file_says_what_must_hold(dispatch, tmp_path, damage, message):
    document = json.loads(msgspec.json.encode(dispatch))
    damage(document)
    (tmp_path / "dispatch.json").write_text(json.dumps(document))
    with pytest.raises(CostModelError, match=message):
        load_dispatch_table(tmp_path / "dispatch.json")


def test_what_is_no_table_is_an_error_for_the_user(tmp_path):
    (tmp_path / "torn.json").write_text('{"schema_version": 1, "ranges')
    with pytest.raises(CostModelError, match="must be a dispatch table of version 1"):
        load_dispatch_table(tmp_path / "torn.json")
    with pytest.raises(CostModelError, match="Cannot read"):
        load_dispatch_table(tmp_path / "absent.json")


def test_an_unwritable_file_is_an_error_for_the_user(dispatch, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CostModelError, match="Cannot write"):
        dispatch.save(tmp_path / "file" / "dispatch.json")
