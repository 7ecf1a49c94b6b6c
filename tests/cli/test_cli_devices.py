import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from costmodel.cli._app import app
from costmodel.records._device_table import read_devices

pytestmark = pytest.mark.white_box

OWN = """
[[devices]]
name = "My GPU"
architecture = "gfx1032"
sms = 10
clock_mhz = 1000
source = "my desk"
"""


def costmodel(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["devices", *map(str, arguments)], env={"COLUMNS": "160"})


def cells(result: Result, label: str) -> str:
    """What stands behind a label."""
    (line,) = [line for line in result.stdout.splitlines() if line.strip().startswith(label)]
    return line.strip().removeprefix(label).strip()


def test_list_shows_each_device_once(tmp_path: Path) -> None:
    file = tmp_path / "devices.json"
    result = costmodel("list", "--json", file)
    assert result.exit_code == 0
    assert f"{len(read_devices())} devices" in result.stdout
    assert cells(result, "NVIDIA H200  ").split() == ["sm_90", "132", "1980", "66.9", "1,070.5", "4,814.3"]
    assert cells(result, "AMD Radeon PRO W6600").split() == ["gfx1032", "28", "2903", "10.4", "-", "224"]
    written = json.loads(file.read_text())
    assert [each["device"]["name"] for each in written] == [entry.device.name for entry in read_devices()]


def test_show_tells_what_the_granted_sms_can_do(tmp_path: Path) -> None:
    file = tmp_path / "device.json"
    result = costmodel("show", "H100_SXM", "--sms", 33, "--json", file)
    assert result.exit_code == 0
    assert cells(result, "SMs granted") == "33 of 132"
    assert cells(result, "peak of these, fp32") == "16.7 TFLOPS"
    assert cells(result, "peak of these, fp16 Tensor") == "267.6 TFLOPS"
    assert cells(result, "bandwidth, shared by all SMs") == "3,352.3 GB/s"
    written = json.loads(file.read_text())
    assert written["device"]["sms"] == 132
    assert written["granted"]["sms"] == 33
    assert written["granted"]["fp32_tflops"] == pytest.approx(66.9 / 4, rel=1e-3)
    assert "H100 datasheet" in written["source"]


def test_devices_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(OWN)
    assert "My GPU" in costmodel("list", "--own", file).stdout
    result = costmodel("show", "my_gpu", "--own", file)
    assert cells(result, "SMs granted") == "10 of 10"
    assert cells(result, "peak of these, fp16 Tensor") == "-"
    assert cells(result, "bandwidth, shared by all SMs") == "-"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "A100"], "Error: The device must be one that `costmodel devices list` shows"),
        (["show", "H200", "--sms", "133"], "Error: sms of NVIDIA H200 must be a whole number from 1 to 132"),
        (["list", "--own", "none.toml"], "Error: Cannot read none.toml"),
    ],
)
def test_wrong_input_is_told_in_one_line(arguments: list[str], message: str) -> None:
    result = costmodel(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["H100", "h100", "NVIDIA_H100"])
def test_of_several_gpus_of_a_name_the_one_that_was_measured_is_shown(name: str) -> None:
    shown = costmodel("show", name)
    assert shown.exit_code == 0
    assert "NVIDIA H100 80GB HBM3" in shown.stdout
    other = costmodel("show", "H100 PCIe")
    assert "NVIDIA H100 PCIe" in other.stdout
