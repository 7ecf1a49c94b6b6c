import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.errors import CostModelError
from costmodel.records import Device, find_device
from costmodel.records._device_table import KnownDevice, find_among, find_entry, read_devices
from costmodel.records._peak_rates import peak_rates

pytestmark = pytest.mark.white_box

DATASETS = Path(__file__).parents[2] / "datasets"
ENTRIES = read_devices()

# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": threads, blocks and KiB of
# shared memory that an SM holds. All have 64 Ki registers.
CUDA_GUIDE = {
    "sm_60": (2048, 32, 64),
    "sm_61": (2048, 32, 96),
    "sm_70": (2048, 32, 96),
    "sm_72": (2048, 32, 96),
    "sm_75": (1024, 16, 64),
    "sm_80": (2048, 32, 164),
    "sm_86": (1536, 16, 100),
    "sm_87": (1536, 16, 164),
    "sm_89": (1536, 24, 100),
    "sm_90": (2048, 32, 228),
    "sm_100": (2048, 32, 228),
    "sm_103": (2048, 32, 228),
    "sm_110": (1536, 24, 228),
    "sm_120": (1536, 24, 100),
    "sm_121": (1536, 24, 100),
}

# Float32 lanes of an SM (the guide, "Arithmetic Instructions"), and dense float16 operations a clock of its
# Tensor Cores (white papers of the architectures).
CUDA_RATES = {
    "sm_60": (64, 0),
    "sm_61": (128, 0),
    "sm_70": (64, 1024),
    "sm_72": (64, 1024),
    "sm_75": (64, 1024),
    "sm_80": (64, 2048),
    "sm_86": (128, 1024),
    "sm_87": (128, 2048),
    "sm_89": (128, 1024),
    "sm_90": (128, 4096),
    "sm_100": (128, 8192),
    "sm_103": (128, 8192),
    "sm_110": (128, 8192),
    "sm_120": (128, 1024),
    "sm_121": (128, 1024),
}
# What export rules left of them.
CUT_RATES = {"NVIDIA H20": 1024, "NVIDIA H20-3e": 1024}

OWN = """
[[devices]]
name = "My GPU"
architecture = "sm_90"
sms = 10
clock_mhz = 1000
source = "my desk"
"""


def each_device(test: Callable[..., None]) -> Callable[..., None]:
    return pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.device.name)(test)


@pytest.fixture
def own(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a file of devices."""

    def write(text: str) -> Path:
        path = tmp_path / "own.toml"
        path.write_text(text)
        return path

    return write


@each_device
def test_peaks_are_what_the_vendor_states(entry: KnownDevice) -> None:
    whole, stated = peak_rates(entry.device), entry.stated
    if entry.device.name == "NVIDIA GeForce RTX 3060 Laptop GPU":  # its power limit decides
        assert stated.fp32_tflops == stated.tensor_tflops == stated.bandwidth_gb_s == 0
        return
    assert whole.fp32_tflops == pytest.approx(stated.fp32_tflops, rel=0.02)
    assert whole.bandwidth_gb_s == pytest.approx(stated.bandwidth_gb_s, rel=0.02)
    if not stated.tensor_tflops:  # nothing, or a power limit decides
        return
    # From Hopper on NVIDIA states the Tensor Cores at a lower clock than the highest: 1830 of 1980 MHz.
    highest = 1.1 if entry.device.architecture in ("sm_90", "sm_100", "sm_103") else 1.02
    assert 0.98 * stated.tensor_tflops <= whole.tensor_tflops <= highest * stated.tensor_tflops


@each_device
def test_limits_are_those_of_the_cuda_guide(entry: KnownDevice) -> None:
    device = entry.device
    assert (device.kind == "cuda") == (entry.vendor == "NVIDIA") == (device.architecture in CUDA_GUIDE)
    if device.kind == "cuda":
        threads, blocks, shared_kib = CUDA_GUIDE[device.architecture]
        assert (device.max_threads_per_sm, device.max_blocks_per_sm) == (threads, blocks)
        assert (device.shared_bytes_per_sm, device.registers_per_sm) == (shared_kib * 1024, 65536)


@pytest.mark.parametrize("name", ["h100-sm-budgets", "sm-budgets"])
def test_measured_devices_are_in_the_table(name: str) -> None:
    column = pq.read_table(DATASETS / name / "measurements.parquet", columns=["device"])["device"]
    measured = {msgspec.convert(row, Device) for row in column.to_pylist()}
    assert measured
    for device in measured:
        assert find_device(device.name) == device


@each_device
def test_rates_are_those_of_the_cuda_guide(entry: KnownDevice) -> None:
    device = entry.device
    if device.kind == "cuda":
        lanes, tensor = CUDA_RATES[device.architecture]
        assert device.fp32_lanes_per_sm == lanes
        assert device.tensor_flops_per_sm_clock == CUT_RATES.get(device.name, tensor)


@each_device
def test_rows_have_a_source_and_names_of_their_own(entry: KnownDevice) -> None:
    assert entry.source
    assert [each for each in ENTRIES if set(each.names) & set(entry.names)] == [entry]
    assert all(find_entry(name) == entry for name in entry.names)


@given(
    st.sampled_from(ENTRIES), st.sampled_from([" ", "_", "-", ""]), st.sampled_from([str.lower, str.upper])
)
def test_spelling_does_not_matter(entry: KnownDevice, separator: str, case: Callable[[str], str]) -> None:
    spelled = case(re.sub(r"[ -]", separator, entry.device.name))
    assert find_device(spelled.removeprefix(case("NVIDIA"))) == entry.device


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("RTX 3090", "NVIDIA GeForce RTX 3090"),
        ("RTX_2080_Ti", "NVIDIA GeForce RTX 2080 Ti"),
        ("RTX_Titan", "NVIDIA TITAN RTX"),
        ("RTX_3060_laptop", "NVIDIA GeForce RTX 3060 Laptop GPU"),
        ("A100-PCIE-40GB", "NVIDIA A100-PCIE-40GB"),
        ("W7800", "AMD Radeon PRO W7800"),
        ("MI300X", "AMD Instinct MI300X"),
        ("AMD Instinct MI300X VF", "AMD Instinct MI300X"),
        ("Intel(R) Arc(TM) B580 Graphics", "Intel(R) Arc(TM) B580 Graphics"),
        ("Arc B580", "Intel(R) Arc(TM) B580 Graphics"),
        ("H100-SXM5-80GB", "NVIDIA H100 80GB HBM3"),
        ("RTX PRO 6000", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition"),
        ("DGX Spark", "NVIDIA GB10"),
        ("4090", "NVIDIA GeForce RTX 4090"),
        ("RTX 4090 24GB", "NVIDIA GeForce RTX 4090"),
        ("RTX 3080 10GB", "NVIDIA GeForce RTX 3080"),
        ("RTX 4060 Ti 16GB", "NVIDIA GeForce RTX 4060 Ti"),
        ("3090Ti", "NVIDIA GeForce RTX 3090 Ti"),
        ("h100_sxm", "NVIDIA H100 80GB HBM3"),
        ("H100 SXM 80 GB", "NVIDIA H100 80GB HBM3"),
        ("H200-SXM-141GB", "NVIDIA H200"),
        ("HGX B200", "NVIDIA B200"),
        ("b200_sxm", "NVIDIA B200"),
        ("NVIDIA B200 180GB", "NVIDIA B200"),
        ("GB200 NVL72", "NVIDIA GB200"),
        ("NVIDIA GB200 192GB HBM3e", "NVIDIA GB200"),
        ("GH200 Grace Hopper", "NVIDIA GH200 480GB"),
        ("NVIDIA® L4 Tensor Core GPU", "NVIDIA L4"),
        ("T4 16GB", "Tesla T4"),
        ("V100 16GB PCIe", "Tesla V100-PCIE-32GB"),
        ("rtx_pro_6000_server", "NVIDIA RTX PRO 6000 Blackwell Server Edition"),
        ("RTX PRO 6000 SE", "NVIDIA RTX PRO 6000 Blackwell Server Edition"),
        ("7900 XTX", "AMD Radeon RX 7900 XTX"),
        ("MI300X OAM", "AMD Instinct MI300X"),
        ("AMD Instinct MI325 OAM", "AMD Instinct MI325X"),
        ("AMD_Instinct_MI350_OAM", "AMD Instinct MI350X"),
        ("AMD Instinct MI355 OAM", "AMD Instinct MI355X"),
        ("Max 1550", "Intel(R) Data Center GPU Max 1550"),
        ("Jetson Thor", "NVIDIA Thor"),
    ],
)
def test_names_as_people_write_them(name: str, found: str) -> None:
    assert find_device(name).name == found


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("Orin", "Jetson AGX Orin 64GB"),
        ("RTX 3099", "NVIDIA GeForce RTX 3090"),
        ("MI300", "AMD Instinct MI300X"),
        ("RTX 4080 Laptop", "NVIDIA GeForce RTX 4080"),
        ("GTX 1080", "NVIDIA GeForce GTX 1080 Ti"),
        ("NVIDIA GeForce GTX 1080", "NVIDIA GeForce GTX 1080 Ti"),
        ("1080", "NVIDIA GeForce GTX 1080 Ti"),
        ("AMD Radeon RX 6600", "AMD Radeon RX 6600 XT"),
        ("RX 6700", "AMD Radeon RX 6700 XT"),
        ("RTX 3080 12GB", "NVIDIA GeForce RTX 3080"),  # as the next three, others by SMs or bandwidth
        ("rtx_2060_12gb", "NVIDIA GeForce RTX 2060"),
        ("RTX 3050 6GB", "NVIDIA GeForce RTX 3050"),
        ("GeForce RTX 3060 8 GB", "NVIDIA GeForce RTX 3060"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA H100 80GB HBM3"),
    ],
)
def test_a_name_that_is_no_device_is_refused_with_names_near_it(name: str, near: str) -> None:
    with pytest.raises(CostModelError, match=rf"got '{name}'.*Did you mean .*{near}"):
        find_device(name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("A100 SXM", ["NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB"]),
        ("a100_80gb", ["NVIDIA A100 80GB PCIe", "NVIDIA A100-SXM4-80GB"]),
        ("NVIDIA H100", ["NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe", "NVIDIA H100 NVL"]),
        ("Tesla V100", ["Tesla V100-SXM2-32GB", "Tesla V100-PCIE-32GB"]),
    ],
)
def test_a_name_of_several_devices_is_answered_with_all_of_them(name: str, meant: list[str]) -> None:
    choices = " or ".join(map(repr, meant))
    with pytest.raises(CostModelError, match=rf"got '{name}'\. It may be {re.escape(choices)}: name one"):
        find_device(name)


@pytest.mark.parametrize("name", ["80GB", "SXM", "24 GB", "NVIDIA", "", "RTX", "Ti", "V100 40GB"])
def test_what_only_describes_or_is_at_odds_names_nothing(name: str) -> None:
    with pytest.raises(CostModelError, match="must be one that"):
        find_device(name)


def test_of_several_devices_the_one_that_is_known_is_meant() -> None:
    known = ["NVIDIA H100 80GB HBM3", "NVIDIA H200", "my own"]
    for name in ("H100", "h100 sxm", known[0]):
        assert find_among(name, known, "known") == known[0]
    assert find_among("My-Own", known, "known") == "my own"
    with pytest.raises(CostModelError, match="must be known, but got 'H100 PCIe'"):
        find_among("H100 PCIe", known, "known")
    with pytest.raises(CostModelError, match="but got 'RTX 4090'"):
        find_among("RTX 4090", ["NVIDIA GeForce RTX 4090 D"], "known")


def test_what_people_tune_for_is_known() -> None:
    names = """H20, H20-3e, H800, H200, H200 NVL, H100 NVL, H100 PCIe, GH200, B200, B300, GB200, GB300, GB10,
        L4, L20, L40, L40S, A2, A10, A10G, A16, A30, A40, RTX 3060, RTX 3080, RTX 4060, RTX 4080, RTX 5060,
        RTX 5070 Ti, RTX 5080, RTX 5090, RTX A5000, RTX A6000, RTX 5000 Ada, RTX 6000 Ada, RTX PRO 4000,
        RTX PRO 6000, Jetson AGX Orin, Jetson Orin NX, Jetson AGX Thor, MI100, MI210, MI250X, MI300X, MI300A,
        MI325X, MI350X, MI355X, RX 7600, RX 7900 XTX, RX 9060 XT, RX 9070 XT, W7900, Arc A770, Arc B580"""
    found = [find_device(name.strip()) for name in names.split(",")]
    assert len({device.name for device in found}) == len(found) == 55
    assert all(device.l2_bytes and device.bandwidth_gb_s and device.registers_per_sm for device in found)
    assert len(ENTRIES) >= 140


def test_a_name_unlike_all_is_refused() -> None:
    with pytest.raises(CostModelError, match=r"'\.$"):
        find_device("zzzzzzzz")


def test_devices_of_ones_own_use_known_architectures(own: Callable[[str], Path]) -> None:
    device = find_device("my gpu", own(OWN))
    h100 = find_device("H100 SXM")
    assert device == Device(
        "My GPU",
        "cuda",
        "sm_90",
        sms=10,
        clock_mhz=1000.0,
        shared_bytes_per_sm=h100.shared_bytes_per_sm,
        registers_per_sm=h100.registers_per_sm,
        max_threads_per_sm=2048,
        max_blocks_per_sm=32,
        fp32_lanes_per_sm=128,
        tensor_flops_per_sm_clock=4096,
    )


def test_devices_of_ones_own_may_bring_an_architecture(own: Callable[[str], Path]) -> None:
    architecture = """
        [architectures.new]
        vendor = "Me"
        kind = "hip"
        max_threads_per_sm = 64
        max_blocks_per_sm = 2
        fp32_lanes_per_sm = 16
        source = "my desk"
    """
    entry = find_entry("My GPU", own(OWN.replace("sm_90", "new") + architecture))
    assert (entry.vendor, entry.device.kind, entry.device.max_threads_per_sm) == ("Me", "hip", 64)
    assert entry.source == "my desk; new: my desk"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sm_90", "sm_1", "must be one of sm_70, .*, but got 'sm_1'"),
        ("My GPU", "GeForce RTX-3090", "'NVIDIA GeForce RTX 3090' has one of them"),
        ("sms = 10", "sms = 0", "`int` >= 1"),
        ("clock_mhz = 1000", "clock_mhz = inf", "must be finite, but one is inf"),
        ("clock_mhz = 1000", "clock_mhz = nan", "must be finite, but one is nan"),
        ("sms = 10", "", "devices 1 lacks sms"),
        ("sms = 10", "sms = 10\nnonsense = 1", "nonsense"),
        ("[[devices]]", "[[devices", "must be a TOML file of devices"),
    ],
)
def test_wrong_files_are_refused(own: Callable[[str], Path], old: str, new: str, message: str) -> None:
    path = own(OWN.replace(old, new))
    with pytest.raises(CostModelError, match=message) as error:
        read_devices(path)
    assert str(path) in str(error.value)


@given(st.integers(0, len(OWN) - 1), st.sampled_from(["", "0", '"', "[", "=", "\n", "\x00", "-", "é"]))
def test_a_damaged_file_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, position: int, character: str
) -> None:
    path = tmp_path_factory.mktemp("own") / "own.toml"
    path.write_text(OWN[:position] + character + OWN[position + 1 :])
    with suppress(CostModelError):
        assert len(read_devices(path)) >= len(ENTRIES)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match=r"Cannot read .*No such file"):
        read_devices(tmp_path / "none.toml")
