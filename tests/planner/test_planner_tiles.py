"""Two dependent kernels with synchronised tiles: waves, policies, overheads, bounds, wrong arguments."""

from itertools import product

import numpy as np
import pytest

from costmodel.planner import (
    Overheads,
    StridedSync,
    TiledKernel,
    choose_policy,
    predict_chain,
    predict_saving,
)
from costmodel.planner._tile_schedule import POLICIES, RowSync, TileSync

pytestmark = pytest.mark.white_box

UP = TiledKernel((8, 24, 1), blocks_per_sm=1, tile_s=100e-6)
DOWN = TiledKernel((8, 48, 1), blocks_per_sm=1, tile_s=50e-6)


def test_a_kernel_takes_its_waves() -> None:
    kernel = TiledKernel((3, 24, 2), blocks_per_sm=2, tile_s=10e-6)
    assert kernel.waves(sms=36) == 2
    assert kernel.waves(sms=35) == 3
    assert kernel.duration_s(sms=35) == pytest.approx(30e-6)


def test_a_tile_s_time_is_found_from_that_of_the_kernel() -> None:
    kernel = TiledKernel.from_duration((3, 24, 2), blocks_per_sm=2, sms=35, duration_s=30e-6)
    assert kernel.tile_s == pytest.approx(10e-6)


@pytest.mark.parametrize("sms", [1, 80, 1000])
def test_one_after_the_other_takes_the_waves_of_both_and_the_gap(sms: int) -> None:
    found = predict_saving(UP, DOWN, sms, overheads=Overheads(gap_s=3e-6))
    assert found.stream_s == pytest.approx(UP.duration_s(sms) + 3e-6 + DOWN.duration_s(sms))


def test_what_the_last_wave_leaves_free_is_used() -> None:
    # On 80 SMs 192 blocks of 100 us take 3 waves, 384 of 50 us take 5: 550 us.
    # There is room for 16 beside the third.
    found = predict_saving(UP, DOWN, sms=80)
    assert found.stream_s == pytest.approx(550e-6)
    assert found.overlapped_s == pytest.approx(500e-6)
    assert found.saving == pytest.approx(1 / 11)


def test_kernels_that_fill_their_waves_have_nothing_to_save() -> None:
    found = predict_saving(UP, DOWN, sms=96)
    assert found.overlapped_s == pytest.approx(found.stream_s)


def test_a_tile_starts_on_what_is_done_while_a_row_still_waits() -> None:
    # A row of 4 tiles on 3 SMs: the last ends at 2 s, the others, and so the wait for an SM, at 1 s.
    # By row it works from 2 s to 6 s; by tile it works from 1 s to 5 s.
    producer = TiledKernel((1, 4, 1), blocks_per_sm=1, tile_s=1.0)
    consumer = TiledKernel((1, 1, 1), blocks_per_sm=1, tile_s=4.0)
    assert predict_saving(producer, consumer, 3, "row").overlapped_s == pytest.approx(6.0)
    assert predict_saving(producer, consumer, 3, "tile").overlapped_s == pytest.approx(5.0)


def test_a_wait_keeps_the_tile_until_its_column_is_done() -> None:
    # Pairs of far columns, (0, 2) and (1, 3): the last column is waited for half-way, when it is done.
    producer = TiledKernel((1, 4, 1), blocks_per_sm=1, tile_s=1.0)
    consumer = TiledKernel((1, 1, 1), blocks_per_sm=1, tile_s=1.0)
    assert predict_saving(producer, consumer, 3, "strided").overlapped_s == pytest.approx(2.5)
    assert predict_saving(producer, consumer, 3, "tile").overlapped_s == pytest.approx(2.25)
    assert predict_saving(producer, consumer, 3, "row").overlapped_s == pytest.approx(3.0)


def test_a_split_of_the_consumer_waits_for_its_own_part() -> None:
    # Columns end at 1 s, 1 s, 2 s, 2 s on two SMs. The first split needs the first two.
    producer = TiledKernel((1, 4, 1), blocks_per_sm=1, tile_s=1.0)
    whole = TiledKernel((1, 1, 1), blocks_per_sm=1, tile_s=2.0)
    split = TiledKernel((1, 1, 2), blocks_per_sm=1, tile_s=1.0)
    assert predict_saving(producer, whole, 2, "tile").overlapped_s == pytest.approx(4.0)
    assert predict_saving(producer, split, 2, "tile").overlapped_s == pytest.approx(3.0)
    assert predict_saving(producer, split, 3, "tile").overlapped_s == pytest.approx(2.5)


def test_a_split_producer_is_done_with_its_last_part() -> None:
    producer = TiledKernel((1, 2, 2), blocks_per_sm=1, tile_s=1.0)
    consumer = TiledKernel((1, 1, 1), blocks_per_sm=1, tile_s=1.0)
    # Three SMs: both tiles' first parts and one second part end at 1 s, the other at 2 s.
    assert predict_saving(producer, consumer, 3, "row").overlapped_s == pytest.approx(3.0)
    assert predict_saving(producer, consumer, 3, "tile").overlapped_s == pytest.approx(2.5)


def test_a_consumer_s_row_waits_for_the_rows_at_its_height() -> None:
    # Four rows on two SMs, done in pairs. Two consumer rows read two each; three read rows 0-1, 1-2 and 2-3.
    producer = TiledKernel((4, 1, 1), blocks_per_sm=1, tile_s=1.0)
    for rows, took in ((2, 3.0), (3, 3.0), (1, 3.0)):
        consumer = TiledKernel((rows, 1, 1), blocks_per_sm=1, tile_s=1.0)
        assert predict_saving(producer, consumer, 3, "row").overlapped_s == pytest.approx(took), rows
    # On three SMs the first row's consumer runs beside the last producer row, and another waits for it.
    early = TiledKernel((4, 1, 1), blocks_per_sm=1, tile_s=1.0)
    assert predict_saving(producer, early, 3, "row").overlapped_s == pytest.approx(3.0)
    assert predict_saving(producer, early, 4, "row").overlapped_s == pytest.approx(2.0)


def test_blocks_of_two_sizes_share_the_sms() -> None:
    # One SM holds two producers; a consumer needs all of it, and so starts when both have ended.
    producer = TiledKernel((1, 3, 1), blocks_per_sm=2, tile_s=1.0)
    consumer = TiledKernel((1, 1, 1), blocks_per_sm=1, tile_s=1.0)
    assert predict_saving(producer, consumer, 1).overlapped_s == pytest.approx(3.0)
    assert predict_saving(producer, consumer, 2).overlapped_s == pytest.approx(2.0)


def test_each_wait_costs_and_each_block() -> None:
    producer = TiledKernel((1, 4, 1), blocks_per_sm=1, tile_s=1.0)
    consumer = TiledKernel((1, 1, 1), blocks_per_sm=1, tile_s=1.0)
    overheads = Overheads(block_s=0.1, wait_s=0.01)
    for policy, waits in (("row", 1), ("strided", 2), ("tile", 4)):
        found = predict_saving(producer, consumer, 4, policy, overheads)
        assert found.overlapped_s == pytest.approx(2.0 + 2 * 0.1 + waits * 0.01), policy
        assert found.bound_s == pytest.approx(2.0)


def test_each_split_of_the_consumer_waits_too() -> None:
    producer = TiledKernel((1, 4, 1), blocks_per_sm=1, tile_s=1.0)
    consumer = TiledKernel((1, 1, 2), blocks_per_sm=1, tile_s=1.0)
    for policy, waits in (("row", 1), ("tile", 2)):
        found = predict_saving(producer, consumer, 4, policy, Overheads(wait_s=0.01))
        assert found.overlapped_s == pytest.approx(2.0 + waits * 0.01), policy


def test_a_negative_saving_is_said() -> None:
    found = predict_saving(UP, DOWN, 96, "tile", Overheads(wait_s=1e-6))
    assert found.saving < 0.0


def test_no_schedule_is_below_the_bound() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        producer, consumer = (
            TiledKernel(
                (int(rng.integers(1, 7)), 2 * int(rng.integers(1, 9)), int(rng.integers(1, 4))),
                blocks_per_sm=int(rng.integers(1, 5)),
                tile_s=float(rng.uniform(0.1, 2.0)),
            )
            for _ in range(2)
        )
        sms = int(rng.integers(1, 40))
        took = {name: predict_saving(producer, consumer, sms, name) for name in POLICIES}
        for found in took.values():
            assert found.overlapped_s >= found.bound_s * (1 - 1e-9)
            assert found.stream_s >= found.bound_s * (1 - 1e-9)
        with_costs = predict_saving(producer, consumer, sms, "tile", Overheads(0.0, 0.01, 0.01))
        assert with_costs.overlapped_s >= took["tile"].bound_s * (1 - 1e-9)


def test_kernels_of_a_chain_share_their_last_waves() -> None:
    """Four of 120 blocks on 80 SMs take six waves, not eight; pairs of them three each."""
    layer = TiledKernel((8, 15, 1), blocks_per_sm=1, tile_s=1.0)
    found = predict_chain([layer] * 4, 80, overheads=Overheads(gap_s=0.25))
    assert (found.stream_s, found.overlapped_s, found.gaps_s) == pytest.approx((8.75, 6.0, 0.75))
    assert found.bound_s == pytest.approx(6.0)
    assert predict_chain([UP, DOWN], 80, "tile") == predict_saving(UP, DOWN, 80, "tile")


def test_a_chain_waits_along_its_rows() -> None:
    """One row of two tiles each on four SMs: by row each kernel waits for the one before."""
    layer = TiledKernel((1, 2, 1), blocks_per_sm=1, tile_s=1.0)
    assert predict_chain([layer] * 3, 4, "row").overlapped_s == pytest.approx(3.0)
    apart = TiledKernel((2, 2, 1), blocks_per_sm=1, tile_s=1.0)
    assert predict_chain([apart] * 3, 2, "row").overlapped_s == pytest.approx(6.0)


def test_a_chain_has_two_kernels() -> None:
    with pytest.raises(ValueError, match="at least two kernels, but got 1"):
        predict_chain([UP], 80)


def test_policies_wait_for_each_column_once() -> None:
    for policy, columns in product((RowSync(), TileSync(), StridedSync(2), StridedSync(3)), (6, 12)):
        assert sorted(policy.groups(columns).ravel().tolist()) == list(range(columns))
    assert StridedSync(2).groups(6).tolist() == [[0, 3], [1, 4], [2, 5]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((0, 1, 1), 1, 1.0), "grid must be .* each at least 1, but got \\(0, 1, 1\\)"),
        (((1, 1), 1, 1.0), "grid must be .*, but got \\(1, 1\\)"),
        (((1, 1, 1), 0, 1.0), "blocks_per_sm must be at least 1, but got 0"),
        (((1, 1, 1), 1, 0.0), "tile_s must be positive and finite, in seconds, but got 0.0"),
        (((1, 1, 1), 1, float("nan")), "tile_s must be positive and finite, in seconds, but got nan"),
    ],
)
def test_a_kernel_that_cannot_be_is_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TiledKernel(*arguments)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="sms must be at least 1, but got 0"):
        predict_saving(UP, DOWN, 0)
    with pytest.raises(
        ValueError, match=r"policy must be one of row, tile, strided, but got 'rows'\. Did you"
    ):
        predict_saving(UP, DOWN, 80, "rows")
    with pytest.raises(ValueError, match="stride must divide the 24 columns of the producer, but got 5"):
        predict_saving(UP, DOWN, 80, StridedSync(5))
    with pytest.raises(ValueError, match="overheads must be at least 0 and finite, in seconds"):
        Overheads(wait_s=-1e-6)


def test_policies_that_save_as_much_are_all_named() -> None:
    free = choose_policy(UP, DOWN, sms=80)
    assert free.savings["row"] == predict_saving(UP, DOWN, 80, "row").saving
    assert set(free.best) == {"row", "tile", "strided"}
    assert str(free).startswith("Alike: row +9.1%")
    # Waits that cost make the policy that waits least the best.
    dear = choose_policy(UP, DOWN, sms=80, overheads=Overheads(wait_s=1e-6))
    assert dear.best == ("row",)
    assert str(dear).startswith("row +")


def test_no_policy_is_better_where_waves_are_full_or_blocks_cost() -> None:
    full = TiledKernel((8, 10, 1), blocks_per_sm=1, tile_s=100e-6)
    assert choose_policy(full, full, sms=80).best == ()
    costly = choose_policy(UP, DOWN, sms=80, overheads=Overheads(block_s=40e-6))
    assert costly.best == ()
    assert str(costly).startswith("No policy is better than one kernel after the other: row -")


def test_pairs_are_left_out_where_columns_are_odd_and_ties_are_checked() -> None:
    odd = TiledKernel((8, 23, 1), blocks_per_sm=1, tile_s=100e-6)
    assert "strided" not in choose_policy(odd, DOWN, sms=80).savings
    assert len(choose_policy(UP, DOWN, sms=80, overheads=Overheads(wait_s=1e-6), tie=1.0).best) in (0, 3)
    with pytest.raises(ValueError, match="tie must be at least 0"):
        choose_policy(UP, DOWN, sms=80, tie=-0.1)
