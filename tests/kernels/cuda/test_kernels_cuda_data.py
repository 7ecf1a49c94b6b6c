"""Families whose kernels depend on what is in their arrays."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from own_kernels import OWN

from costmodel.errors import CostModelError
from costmodel.kernels import CudaFamily, CudaSource
from costmodel.kernels._design_space import sample_from_starts
from costmodel.records._candidate import ConfigBatch

pytestmark = pytest.mark.white_box

ROWS = {
    "Name": "lengths",
    "Type": "int32",
    "MemoryType": "Vector",
    "AccessType": "ReadOnly",
    "FillType": "Data",
    "Size": "entries",
}
OUT = {"Name": "out", "Type": "float", "MemoryType": "Vector", "AccessType": "WriteOnly", "Size": "n"}
DATA = """
import numpy as np

def facts(dims):
    return {"entries": dims["n"] // 2, "longest": 2.5, "unused": 1}

def arrays(dims, rng):
    return {"lengths": rng.integers(1, 9, dims["n"] // 2).astype(np.int32)}
"""


@pytest.fixture
def family(tmp_path: Path) -> Callable[..., CudaFamily]:
    """A family with data of its own."""

    def make(data: str = DATA, **section: Any) -> CudaFamily:
        document = {
            "ConfigurationSpace": {
                "TuningParameters": [{"Name": "block_size_x", "Type": "int", "Values": [32, 64, 128]}],
                "Conditions": [{"Expression": "block_size_x <= entries"}],
            },
            "KernelSpecification": {
                "Language": "CUDA",
                "KernelName": "rows",
                "KernelFile": "rows.cu",
                "ProblemSize": ["n"],
                "GridDivX": ["block_size_x"],
                "Arguments": [OUT, ROWS],
            },
            "Workload": {
                "Dims": {"n": 128},
                "Facts": ["entries", "longest"],
                "Launch": {"GlobalLoadBytes": "longest * blocks"},
                **section,
            },
        }
        folder = tmp_path / f"rows{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        (folder / "rows.json").write_text(json.dumps(document))
        (folder / "rows.cu").write_text("")
        (folder / "data.py").write_text(data)
        return CudaFamily.load(folder)

    return make


def test_formulas_use_facts_of_the_data(family: Callable[..., CudaFamily]) -> None:
    made = family()
    space = made.space(made.workload(n=128))
    assert space.count == 2  # 128 threads are more than 64 entries
    batch = space.draw(0, 8, np.random.default_rng(0))
    loads = dict(
        zip(batch.decisions["block_size_x"], space.launches(batch)["global_load_bytes"], strict=True)
    )
    assert loads == {32: 2.5 * 4, 64: 2.5 * 2}
    assert ConfigBatch.from_configs(space.workload, batch.configs()).size == 2


def test_data_are_made_of_the_dims_and_the_same_in_every_process(family: Callable[..., CudaFamily]) -> None:
    made = family()
    source, workload = CudaSource([made.folder]), made.workload(n=20)
    _, lengths = source.arguments(workload)
    assert lengths.shape == (10,)
    assert lengths.dtype == np.int32
    np.testing.assert_array_equal(lengths, source.arguments(workload)[1])


def test_other_data_make_another_space(family: Callable[..., CudaFamily]) -> None:
    assert family().space_name == family().space_name
    assert family(DATA.replace("1, 9", "2, 9")).space_name != family().space_name


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("// 2).", ").", "lengths of 64 elements of int32, but made 128 of int32"),
        ("np.int32", "np.int64", "lengths of 64 elements of int32, but made 64 of int64"),
        ("lengths", "sizes", "must make lengths, but made sizes"),
        ("def arrays", "def nothing", r"data.py must define arrays\(dims, rng\)"),
        ('return {"lengths"', 'return 3, {"lengths"', "arrays must return a dict, but got tuple"),
        ('return {"lengths"', 'return {1 / 0: 1, "lengths"', "arrays failed on .*ZeroDivisionError"),
        ("longest", "shortest", r"must return a dict that has \['entries', 'longest'\]"),
        ("2.5", "float('nan')", "longest of .* must be finite, but got nan"),
    ],
)
def test_what_is_wrong_with_data_is_said(
    family: Callable[..., CudaFamily], right: str, wrong: str, message: str
) -> None:
    assert right in DATA
    made = family(DATA.replace(right, wrong))
    with pytest.raises(CostModelError, match=message):
        CudaSource([made.folder]).arguments(made.workload())


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"Facts": ["e"]}, "names of two letters or more"),
        ({"Facts": ["entries", "longest", "block_size_x"]}, "names of dims or facts"),
        ({"Facts": ["entries"]}, "longest"),
    ],
)
def test_facts_that_a_description_must_not_name(
    family: Callable[..., CudaFamily], section: dict[str, Any], message: str
) -> None:
    with pytest.raises(CostModelError, match=message):
        family(**section)


def test_what_is_changed_of_the_default_counts_before_the_rest_of_it(tmp_path: Path) -> None:
    document = json.loads((OWN / "convolution" / "convolution.json").read_text())
    document["Workload"] = {**document.get("Workload", {}), "Starts": [{"use_padding": 0, "block_size_y": 1}]}
    (tmp_path / "convolution.json").write_text(json.dumps(document))
    (tmp_path / document["KernelSpecification"]["KernelFile"]).write_text("")
    default, changed = CudaFamily.load(tmp_path).space().starts
    assert (default.decisions["use_padding"], default.decisions["block_size_y"]) != (0, 1)
    assert (changed.decisions["use_padding"], changed.decisions["block_size_y"]) == (0, 1)


def test_a_family_says_what_is_measured_first(family: Callable[..., CudaFamily]) -> None:
    starts = [{"block_size_x": 64}, {"block_size_x": 128}, {"block_size_x": 32}]
    space = family(Starts=starts).space()
    assert [config.decisions["block_size_x"] for config in space.starts] == [32, 64]  # 128 breaks a condition
    drawn = sample_from_starts(space, 1, seed=0)
    assert [candidate.config for candidate in drawn] == [space.default]
    with pytest.raises(CostModelError, match="Starts must be choices of parameters, but got block_size_x: 7"):
        family(Starts=[{"block_size_x": 7}])
