"""Families of Triton kernels, as far as they need no Triton: what they say, and what is refused."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel.dataset import load_dataset
from costmodel.errors import CostModelError, MissingExtraError
from costmodel.kernels import TritonFamily
from costmodel.kernels.triton._interpreter import interpret
from costmodel.kernels.triton._source import TritonSource, is_family_place, load_families
from costmodel.records import Config, Workload

pytestmark = pytest.mark.white_box

RNG = np.random.default_rng(0)
OWN = Path(__file__).parent / "own" / "scale"
(SCALE,) = load_families(str(OWN))


def test_a_config_is_launched_as_its_formulas_say() -> None:
    space = TritonSource([OWN]).space(SCALE.workload(m=3, n=200), "cuda")
    config = space.config(space.params(Config({"BLOCK": 256, "FAULT": "", "num_warps": 2, "maxnreg": 0})))
    (launch,) = space.candidate(config).launches
    assert (launch.blocks, launch.threads_per_block, launch.shared_bytes) == (3, 64, 256)
    assert (launch.flops, launch.global_load_bytes, launch.global_store_bytes) == (600, 1200, 0)


def test_the_default_is_the_authors() -> None:
    default = TritonSource([OWN]).space(SCALE.workload(), "cuda").default
    assert default.decisions == {"BLOCK": 128, "FAULT": "", "num_warps": 4, "maxnreg": 0}


def test_where_the_default_breaks_a_condition_the_nearest_choice_stands_for_it() -> None:
    family = replace(SCALE, defaults={"BLOCK": 1024, "num_warps": 4})
    assert family.space(family.workload(n=300)).default.decisions["BLOCK"] == 512  # below 2 n


def test_its_space_has_another_name_when_the_kernel_changes_and_the_same_when_its_costs_do(
    tmp_path: Path,
) -> None:
    changed = tmp_path / "kernel.py"
    changed.write_text(SCALE.kernel.read_text().replace("2.5", "2.25") + "# another\n")
    assert replace(SCALE, kernel=changed).space_name != SCALE.space_name
    assert replace(SCALE, scalars={**SCALE.scalars, "factor": 3.0}).space_name != SCALE.space_name
    assert replace(SCALE, flops="2 * m * n", defaults={}).space_name == SCALE.space_name
    assert SCALE.space_name.startswith("triton-scale-")


def test_arrays_are_the_kernels_in_its_order() -> None:
    source, workload = TritonSource([OWN]), SCALE.workload(m=2, n=8)
    x, bias, y = source.arguments(workload)
    assert x.shape == y.shape == (2, 8)
    assert bias.shape == (1,)
    assert np.isnan(y).all()
    assert source.outputs(workload) == (2,)
    np.testing.assert_array_equal(source.reference(workload) or [], [2.5 * x.astype(np.float64) + 2 * bias])


def test_a_parameter_may_act_on_the_launch_alone() -> None:
    (persistent,) = load_families(str(OWN.parent / "persistent"))
    space = persistent.space()
    blocks = {
        c.decisions["PROGRAMS"]: space.candidate(c).launches[0].blocks
        for c in space.draw(0, 50, RNG).configs()
    }
    assert blocks == {8: 8, 16: 16, 132: 132}
    used = replace(SCALE, parameters={**SCALE.parameters, "WORDS": (1, 2)}, scratch={"done": "4 * m * WORDS"})
    assert "WORDS" in used.choices


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parameters": {**SCALE.parameters, "UNUSED": (1, 2)}}, "does not take UNUSED"),
        ({"parameters": {**SCALE.parameters, "TOLD": (1, 2)}, "flops": "m * TOLD"}, "does not take TOLD"),
        ({"scalars": {"m": "m", "n": "n", "factor": "k"}}, "k"),
        ({"constants": {"TWICE": 2, "THRICE": 3}}, "does not take THRICE"),
        ({"scratch_types": {}}, "the type of each scratch"),
        ({"outputs": ("z",)}, "but got outputs \\['z'\\]"),
        ({"outputs": ()}, "there must be arrays and outputs"),
        ({"grid": ()}, "one to three axes"),
        ({"launch": {"bank_conflicts": 1}}, "bank_conflicts"),
        ({"dtype": "float16"}, "dtype must be given with operators"),
        ({"function": "scales"}, "must define the function 'scales'"),
        ({"kernel": Path("nowhere.py")}, "nowhere.py"),
        ({"dims": {"m": 64, "BLOCK": 2}}, "BLOCK"),
        ({"operators": ("softmax",), "dtype": "float16"}, "operands must describe"),
    ],
)
def test_what_does_not_fit_the_kernel_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(CostModelError, match=message):
        replace(SCALE, **change)


def test_arrays_that_the_kernel_does_not_take_are_refused() -> None:
    with pytest.raises(CostModelError, match="must make x, bias, y, factor, but makes y, x, bias"):
        replace(SCALE, scalars={"m": "m", "n": "n"}).own_arguments(SCALE.workload())
    family = replace(SCALE, arrays=lambda dims, rng: {"x": np.zeros(3), "y": np.zeros(3)})
    with pytest.raises(CostModelError, match="must make x, bias, y, but makes x, y"):
        family.own_arguments(family.workload())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("FAMILY = 3\n", "must define FAMILY or FAMILIES"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("FAMILIES = []\n", "must define FAMILY or FAMILIES"),
    ],
)
def test_a_file_that_is_no_family_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "family.py").write_text(text)
    with pytest.raises(CostModelError, match=message):
        load_families(str(tmp_path))


def test_a_family_is_found_by_its_folder_its_file_and_its_name() -> None:
    assert load_families(str(OWN / "family.py")) == load_families(f"{OWN / 'family.py'}:FAMILY") == (SCALE,)
    assert is_family_place(str(OWN))
    assert is_family_place(f"{OWN / 'family.py'}:FAMILY")
    assert not is_family_place(str(OWN / "kernel.py"))
    assert not is_family_place(str(OWN.parent))
    with pytest.raises(CostModelError, match="must define OTHER"):
        load_families(f"{OWN / 'family.py'}:OTHER")


def test_families_that_ship_have_names_of_their_own_and_a_default_that_can_be_launched() -> None:
    families = TritonSource.shipped()
    assert len({family.name for family in families}) == len(families) > 0
    for family in families:
        space = family.space()
        assert space.candidate(space.default).launches[0].blocks > 0
        assert space.count
        assert 50 <= space.count <= 20_000


def test_choosing_among_configs_loads_no_triton() -> None:
    code = (
        "import sys; from costmodel.kernels.triton._source import TritonSource; "
        "[f.space().default for f in TritonSource.shipped()]; assert 'triton' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_operator_is_computed_by_the_first_family_that_does() -> None:
    source = TritonSource()
    for family in source.shipped():
        assert isinstance(family, TritonFamily)
        assert source.makes(family.workload(), "cuda")
        assert not source.makes(family.workload(), "cpu")
    assert not source.makes(Workload("triton.nobodys", {"x": 3}, ""), "cuda")


def test_the_dataset_that_ships_knows_launches_as_families_tell_them() -> None:
    source = TritonSource()
    recorded = load_dataset("triton-sm-budgets", sources=["triton"]).candidates
    for candidate in list(recorded)[::40]:
        told = source.space(candidate.workload, "cuda").candidate(candidate.config)
        assert told.launches == candidate.launches


def test_without_torch_the_interpreter_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"Triton's interpreter needs .* pip install .*\[torch\]"):
        interpret([str(OWN)], SCALE.workload(m=3, n=200), [Config({"BLOCK": 256})])
