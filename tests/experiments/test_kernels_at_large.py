"""Every kernel at large is a family that can be measured, with a reference that tells right from wrong."""

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from costmodel.kernels._reference import agrees
from costmodel.kernels.family._source import load_module
from costmodel.kernels.triton._build import build_triton_family
from costmodel.kernels.triton._family import TritonFamily
from costmodel.kernels.triton._interpreter import interpret
from costmodel.kernels.triton._source import load_families

pytestmark = pytest.mark.white_box

FAMILIES = Path(__file__).parents[2] / "experiments" / "kernels_at_large" / "families"
KINDS = {file.parent.name: load_families(str(file.parent)) for file in sorted(FAMILIES.glob("*/family.py"))}
EACH = [(kind, family) for kind, families in KINDS.items() for family in families]

by_family = pytest.mark.parametrize(
    ("kind", "family"), EACH, ids=[f"{kind}-{family.name}" for kind, family in EACH]
)


def tables(kind: str) -> ModuleType:
    return load_module((FAMILIES / kind / "family.py").resolve())


def small(kind: str, family: TritonFamily) -> Mapping[str, int]:
    """Sizes at which a reference is quick: those for the interpreter where there are any."""
    return getattr(tables(kind), "SMALL", {}).get(family.name) or tables(kind).SIZES[family.name][1]


def test_each_name_is_of_one_family_that_has_sizes() -> None:
    assert KINDS
    names = [family.name for _, family in EACH]
    assert sorted(set(names)) == sorted(names)
    for kind, families in KINDS.items():
        assert set(tables(kind).SIZES) == {family.name for family in families}


@by_family
def test_there_is_something_to_choose_at_both_sizes(kind: str, family: TritonFamily) -> None:
    for dims in tables(kind).SIZES[family.name]:
        size = family.space(family.workload(**dims)).size
        assert size is None or size >= 40


@by_family
def test_the_reference_is_not_what_outputs_were_before(kind: str, family: TritonFamily) -> None:
    workload = family.workload(**small(kind, family))
    arrays, reference = family.make_arrays(workload), family.own_reference(workload)
    assert reference is not None
    same = []
    for name, expected in zip(family.outputs, reference, strict=True):
        assert expected.shape == arrays[name].shape
        assert np.isfinite(expected).all()
        same.append(agrees(arrays[name], expected, family.own_tolerance(workload)))
    assert not all(same)


@pytest.mark.triton
@by_family
def test_the_default_compiles(kind: str, family: TritonFamily, tmp_path: Path) -> None:
    space = family.space(family.workload(**tables(kind).SIZES[family.name][0]))
    built = build_triton_family(family, space.candidate(space.default), "sm_90", tmp_path)
    assert built.library, built.error


@pytest.mark.triton
@pytest.mark.parametrize("kind", [kind for kind in KINDS if hasattr(tables(kind), "SMALL")])
def test_the_first_of_a_kind_computes_what_its_reference_says(kind: str) -> None:
    pytest.importorskip("torch")
    family = KINDS[kind][0]
    space = family.space(family.workload(**small(kind, family)))
    rng = np.random.default_rng(0)
    configs = [space.sample(rng) for _ in range(2)]
    assert interpret((str(FAMILIES / kind),), space.workload, configs) == ["", ""]
