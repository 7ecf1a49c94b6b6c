"""What measured savings make of simulated ones: a planted law is found, and what nothing tells stays."""

from dataclasses import replace

import numpy as np
import pytest

from costmodel.planner import MeasuredSaving, Overheads, SavingLaw, TiledKernel, predict_chain, predict_saving

POLICIES = ("row", "tile")


def measured(law: SavingLaw, count: int = 40, noise: float = 0.0) -> list[MeasuredSaving]:
    """Savings of chains of random kernels that follow a law."""
    draw = np.random.default_rng(3)
    found = []
    for number in range(count):
        kernels = [
            TiledKernel(
                (int(draw.integers(1, 40)), int(draw.integers(1, 12)), 1), 1, float(draw.uniform(5e-6, 4e-5))
            )
            for _ in range(2 + number % 3)
        ]
        policy = POLICIES[number % 2]
        simulated = predict_chain(kernels, 80, policy, Overheads(gap_s=4e-6))
        saving = law.saving(simulated, policy) + noise * float(draw.standard_normal())
        found.append(MeasuredSaving(policy, simulated, saving))
    return found


def test_a_planted_law_is_found() -> None:
    planted = SavingLaw(gaps=1.8, overlap=0.6, costs={"row": 0.02, "tile": 0.09})
    found = SavingLaw.fit(measured(planted, 400))
    assert found.gaps == pytest.approx(1.8, abs=0.15)
    assert found.overlap == pytest.approx(0.6, abs=0.05)
    assert found.costs["tile"] - found.costs["row"] == pytest.approx(0.07, abs=0.01)


def test_some_wild_rows_do_not_move_it() -> None:
    planted = SavingLaw(gaps=1.8, overlap=0.6, costs={"row": 0.02, "tile": 0.09})
    rows = measured(planted, noise=0.003)
    wild = [replace(row, saving=-0.9) if number % 10 == 0 else row for number, row in enumerate(rows)]
    found, clean = SavingLaw.fit(wild), SavingLaw.fit(rows)
    assert found.overlap == pytest.approx(clean.overlap, abs=0.1)


def test_without_measurements_it_is_the_simulation() -> None:
    up, down = TiledKernel((8, 24, 1), 1, 100e-6), TiledKernel((8, 48, 1), 1, 50e-6)
    simulated = predict_saving(up, down, 80, "row", Overheads(gap_s=4e-6))
    assert SavingLaw.fit([]).saving(simulated, "row") == pytest.approx(simulated.saving)


def test_what_no_row_tells_stays() -> None:
    """Kernels that fill their waves have no overlap, so that nothing is learned of it."""
    full = TiledKernel((8, 10, 1), 1, 100e-6)
    simulated = predict_saving(full, full, 80, "row", Overheads(gap_s=4e-6))
    found = SavingLaw.fit([MeasuredSaving("row", simulated, 0.01)] * 5)
    assert found.overlap == pytest.approx(1.0)
