"""Whole columns of configs drawn at once, and what is estimated of them beside what lowering finds."""

import numpy as np
import pytest

from costmodel.errors import InvalidConfigError
from costmodel.kernels import open_space
from costmodel.kernels.metaschedule._estimate import estimate_launches
from costmodel.kernels.metaschedule._parameters import Categorical, Tile
from costmodel.records import Candidate, Workload
from costmodel.records._candidate import ConfigBatch, KernelLaunch

pytestmark = pytest.mark.white_box

NEW = (
    "matmul_gelu-m96-n80-k112",
    "batch_matmul_add-b6-m24-n40-k36",
    "conv2d_bias_silu-n2-c12-h15-w15-o20-k5-s2",
    "conv2d-n1-c12-h14-w14-o24-k1-s2",
    "depthwise_conv2d_nhwc_relu-n1-c24-h17-w17-k5-s2",
    "conv2d_nhwc_mul-n2-c32-h20-w20-o48-k3-s1-float16",
    "matmul_bias_gelu-m64-n96-k128-float16",
    "softmax-m100-n300",
    "layer_norm-m40-n300-float16",
    "rms_norm-m7-n96",
)


def test_drawn_columns_hold_choices_only() -> None:
    rng = np.random.default_rng(0)
    tile, few = Tile("t", 48, 3, 4), Categorical("c", (1, 2, 8), (0.0, 0.25, 0.75))
    tiles, choices = tile.draw(5000, rng), few.draw(5000, rng)
    assert all(tile.contains(tuple(factors)) for factors in tiles.tolist())
    assert len(np.unique(tiles, axis=0)) == 10 + 8 + 5 + 6  # divisors of 48, 24, 16, 12
    assert set(choices.tolist()) == {2, 8}
    assert np.mean(choices == 8) == pytest.approx(0.75, abs=0.03)


@pytest.mark.tvm
@pytest.mark.parametrize("name", ["matmul-m64-n96-k64", "conv2d-n1-c8-h14-w14-o8-k3-s1", "softmax-m64-n64"])
def test_drawn_configs_meet_the_constraints_and_repeat_with_the_seed(name) -> None:
    space = open_space(Workload.parse(name), "cuda")
    for position, sketch in enumerate(space.sketches):
        batch = space.draw(position, 300, np.random.default_rng(1))
        configs = batch.configs()
        assert len(configs) == batch.size == 300
        assert all(sketch.holds(config.decisions) for config in configs)
        assert all(sketch.worth_lowering(config.decisions) for config in configs)
        again = space.draw(position, 300, np.random.default_rng(1))
        assert again.configs() == configs


@pytest.mark.tvm
def test_rejection_keeps_all_that_meets_the_constraints() -> None:
    space = open_space(Workload.parse("matmul-m64-n96-k64"), "cuda")
    sketch, rng = space.sketches[0], np.random.default_rng(0)
    one_by_one = [
        decisions
        for decisions in ({p.name: p.sample(rng) for p in sketch.parameters} for _ in range(20_000))
        if sketch.worth_lowering(decisions)
    ]
    threads = [decisions["tile.C.i"][2] * decisions["tile.C.j"][2] for decisions in one_by_one]
    batch = space.draw(0, 4000, rng)
    drawn = batch.decisions["tile.C.i"][:, 2] * batch.decisions["tile.C.j"][:, 2]
    assert np.mean(drawn <= 64) == pytest.approx(np.mean(np.array(threads) <= 64), abs=0.06)


@pytest.mark.tvm
@pytest.mark.parametrize("name", NEW)
def test_estimates_are_what_lowering_finds(name) -> None:
    """Workloads that no dataset holds, three valid draws of each sketch."""
    space = open_space(Workload.parse(name), "cuda")
    for position in range(len(space.sketches)):
        batch = space.draw(position, 60, np.random.default_rng(5))
        estimated, compared = estimate_launches(batch), 0
        for row in range(batch.size):
            candidate = _lowered(space, batch, row)
            if candidate is None:
                continue
            for field in KernelLaunch.__struct_fields__:
                recorded = [getattr(launch, field) for launch in candidate.launches]
                assert estimated[field][row].tolist() == recorded, (field, candidate.config)
            compared += 1
            if compared == 3:
                break
        assert compared == 3


def _lowered(space, batch: ConfigBatch, row: int) -> Candidate | None:
    """The candidate of a row; None where no valid kernel comes of it."""
    (config,) = batch.configs([row])
    try:
        candidate = space.candidate(config)
    except InvalidConfigError:
        return None
    return candidate if candidate.config == config else None
