"""Linear layers in float32 on GPUs that are left out, made up by the law itself."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from experiment_folder import found_beside

from costmodel.records import find_device
from costmodel.records._peak_rates import FLOPS_PER_J
from costmodel.transfer.prediction._lane_products import LANE_LAW, LaneLaw

pytest.importorskip("xgboost")
pytestmark = pytest.mark.white_box

FOLDER = Path(__file__).parents[2] / "experiments" / "another_gpu"
DEVICES = ["Tesla T4", "NVIDIA L4", "NVIDIA A100-PCIE-40GB"]
LAW = LaneLaw(lanes=0.8, tile_wait=3.0, start_s=1e-5, flops_per_j=1.1e7)


@pytest.fixture(scope="module")
def layers() -> Iterator[ModuleType]:
    with found_beside(FOLDER, ["rules", "linear_layers"]):
        import linear_layers

        yield linear_layers


def written(path: Path, each: int = 24) -> Path:
    """NeuSight's columns, of the same layers on each GPU, off by 2 %."""
    rng, parts = np.random.default_rng(0), []
    m, n, k = np.ceil(2 ** rng.uniform(9, 13, (3, each)))
    for name in DEVICES:
        seconds = LAW.seconds(m, k, n, find_device(name)) * np.exp(0.02 * rng.normal(size=each))
        told = {"Device": name, "Latency": seconds * 1e3, "B": 1, "M": m, "N": n, "K": k}
        grid = {f"Grid {axis}": 8 for axis in "xyz"} | {f"Block {axis}": 4 for axis in "xyz"}
        parts.append(pd.DataFrame(told | grid).astype({"M": int, "N": int, "K": int}))
    pd.concat(parts).to_csv(path, index=False)
    return path


def test_a_gpu_that_is_left_out_is_told_by_the_law_of_the_others(layers: ModuleType, tmp_path: Path) -> None:
    found = layers.Layers.read(written(tmp_path / "linear.csv"), DEVICES)
    assert found.names == sorted(DEVICES)
    law = layers.fit_law(found.on("Tesla T4", "NVIDIA L4"))
    assert law.flops_per_j == pytest.approx(LAW.flops_per_j, rel=0.05)  # both are held by their power
    pairs = pd.DataFrame(layers.judge_pairs(found, 24, 0))
    assert len(pairs) == 6
    from_others = pairs[pairs["device"] != "NVIDIA A100-PCIE-40GB"]["error"]
    assert from_others.max() < 0.1
    rules = dict(layers._baselines(found.on("NVIDIA L4"), found.on("NVIDIA L4"), found.on("Tesla T4")))
    assert not np.isnan(rules["nearest GPU, wave scaling (Habitat)"]).any()


def test_without_the_file_nothing_is_judged(layers, tmp_path, capsys) -> None:
    out, config = tmp_path / "o.json", str(FOLDER / "linear_layers.toml")
    layers.main(["--config", config, "--table", str(tmp_path / "none.csv"), "--out", str(out)])
    assert "Nothing was judged" in capsys.readouterr().err
    assert not out.exists()


def test_what_ships_is_what_the_experiment_found() -> None:
    found = json.loads((FOLDER / "linear_layers.json").read_text())["law"]
    for name in ("lanes", "tile_wait", "spread"):
        assert getattr(LANE_LAW, name) == pytest.approx(found[name], rel=0.005)
    assert pytest.approx(found["flops_per_j"], rel=0.005) == FLOPS_PER_J
