import pytest

from costmodel.errors import CostModelError
from costmodel.kernels import make_target, open_space
from costmodel.records import Workload

tvm = pytest.importorskip("tvm")
pytestmark = pytest.mark.tvm


@pytest.mark.parametrize(
    ("architecture", "compiled_for"),
    [
        ("sm_75", "sm_75"),
        ("sm_89", "sm_89"),
        ("sm_90", "sm_90a"),
        ("sm_90a", "sm_90a"),
        ("sm_100", "sm_100a"),
    ],
)
def test_kernels_are_compiled_for_the_device(architecture: str, compiled_for: str) -> None:
    assert str(make_target("cuda", architecture).arch) == compiled_for


def test_what_names_no_compute_capability_is_refused() -> None:
    for architecture in ("gfx942", "sm_", "sm_90ab", "x86_64"):
        with pytest.raises(CostModelError, match=f"must be named as sm_90 is, but got '{architecture}'"):
            make_target("cuda", architecture)


def test_all_but_the_architecture_is_hoppers() -> None:
    """MetaSchedule's spaces, and with them the names of configs, are the same on every GPU."""
    assert str(make_target("cuda")) == str(tvm.target.Target("nvidia/nvidia-h100"))
    ampere, hopper = (dict(make_target("cuda", name).export()) for name in ("sm_80", "sm_90"))
    assert {key for key in hopper if ampere[key] != hopper[key]} == {"arch"}
    assert ampere.keys() == hopper.keys()


def test_a_space_is_for_hopper() -> None:
    space = open_space(Workload.parse("matmul-m64-n64-k64"), "cuda")
    assert str(space.target) == str(make_target("cuda"))
