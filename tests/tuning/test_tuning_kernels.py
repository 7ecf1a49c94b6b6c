"""A check of a family, with records in place of a GPU."""

from pathlib import Path

import pytest
from fake_records import fake_measurement, fake_platform
from msgspec.structs import replace

from costmodel import tune
from costmodel.collector import ReplayRunner
from costmodel.errors import CostModelError
from costmodel.kernels import CudaFamily
from costmodel.records import Config, Measurement, Outcome
from costmodel.tuning import check_kernels

VECTOR_ADD = Path(__file__).parents[1] / "kernels" / "cuda" / "own" / "vector_add"
SIZES = range(128, 1025, 64)
WRONG = (192, 512)


@pytest.fixture
def runner() -> ReplayRunner:
    """Serves every config of vector addition on a whole device; two are wrong."""
    space = CudaFamily.load(VECTOR_ADD).space()

    def recorded(size: int) -> Measurement:
        outcome = Outcome.WRONG_RESULT if size in WRONG else Outcome.OK
        one = fake_measurement(tile=size, sms=132, outcome=outcome)
        candidate = space.candidate(Config({"block_size_x": size}))
        return replace(one, candidate=candidate, platform=fake_platform(132))

    return ReplayRunner([recorded(size) for size in SIZES])


@pytest.fixture(autouse=True)
def _with_nvrtc() -> None:
    bindings = pytest.importorskip("cuda.bindings.nvrtc")
    try:
        bindings.nvrtcVersion()
    except RuntimeError as error:
        pytest.skip(f"needs NVRTC: {error}")


def test_what_compiles_is_measured_the_default_first(runner: ReplayRunner) -> None:
    found = check_kernels(VECTOR_ADD, configs=15, runner=runner)
    sizes = [each.candidate.config.decisions["block_size_x"] for each in found.measured]
    assert sizes[0] == 256
    assert sorted(sizes) == list(SIZES)
    wrong = [each for each in found.measured if each.outcome is Outcome.WRONG_RESULT]
    assert {each.candidate.config.decisions["block_size_x"] for each in wrong} == set(WRONG)
    assert found.measured_on == runner.description
    assert found.compiled.architecture == "sm_90"  # the device's
    assert not found.failed


def test_a_check_without_a_gpu_only_compiles() -> None:
    found = check_kernels(VECTOR_ADD, dims={"x": 4096}, architecture="sm_80", configs=2)
    assert found.measured == ()
    assert found.compiled.architecture == "sm_80"
    assert found.compiled.workload.dims == {"x": 4096}
    assert not found.failed


def test_another_runner_is_refused() -> None:
    with pytest.raises(CostModelError, match="The runner must be cuda or interpreter, or none"):
        check_kernels(VECTOR_ADD, runner="cpu")


def test_triton_s_interpreter_is_for_triton_kernels() -> None:
    with pytest.raises(CostModelError, match=r"interpreter needs a Triton family, but .* is of cuda"):
        check_kernels("costmodel/kernels/cuda/families/transpose", runner="interpreter")


def test_a_program_is_no_family_and_the_message_tells_where_it_belongs(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text("import triton\n@triton.jit\ndef kernel(x): ...\n")
    for call in (check_kernels, tune):
        with pytest.raises(CostModelError, match="rank_program and tune_program"):
            call(str(file))


def test_a_place_that_is_no_family_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match=r"A family must be at .*nowhere"):
        check_kernels(tmp_path / "nowhere")
