import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.collector.runners._mps import MpsDaemon, check_shared_daemon, percentage_of
from costmodel.errors import CostModelError
from costmodel.liveness import HeldFolder

pytestmark = pytest.mark.white_box

CONTROL = """#!{python}
# Stands in for NVIDIA's: a daemon with a server, found through CUDA_MPS_PIPE_DIRECTORY.
# Both give up in a minute.
import json, os, signal, sys, time
from pathlib import Path

behaviour = os.environ.get("FAKE_MPS", "")
pipe = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
pid_file = pipe / "nvidia-cuda-mps-control.pid"

def daemon():
    os.setsid()
    (pipe / "environment.json").write_text(json.dumps(dict(os.environ)))
    server = os.fork()
    if behaviour == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif server:
        def quit(*_):
            os.kill(server, signal.SIGKILL)
            os.waitpid(server, 0)
            pid_file.unlink()
            os._exit(0)
        signal.signal(signal.SIGTERM, quit)
    if server:
        pid_file.write_text(str(os.getpid()))
    time.sleep(60)
    os._exit(0)

if sys.argv[1:] == ["-d"]:
    if behaviour == "fails":
        sys.exit("no device here")
    if behaviour != "silent" and not os.fork():
        daemon()
    sys.exit(0)
command = sys.stdin.read().strip()
if not pid_file.exists():
    print("Cannot find MPS control daemon process")
    sys.exit(1)
if command == "quit":
    os.kill(int(pid_file.read_text()), signal.SIGTERM)
else:
    print("100.0")
"""


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The fake control program, first on the PATH."""
    program = tmp_path / "nvidia-cuda-mps-control"
    program.write_text(CONTROL.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return program


@pytest.fixture
def parent() -> Iterator[Path]:
    """Where daemons have their folders; short as sockets want it."""
    with tempfile.TemporaryDirectory(prefix="mps") as folder:
        yield Path(folder)


def running(parent: Path) -> list[int]:
    """Processes whose daemon has its folder in ``parent``, found otherwise than by the code under test."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if f"={parent}/".encode() in environment and b"nvidia-cuda-mps-control" in command:
            found.append(int(process.name))
    return found


def test_a_daemon_ends_with_its_block(control: Path, parent: Path) -> None:
    with MpsDaemon(parent) as daemon:
        pipe = Path(daemon.environment(25)["CUDA_MPS_PIPE_DIRECTORY"])
        assert pipe.is_dir()
        assert len(running(parent)) == 2
    assert running(parent) == []
    assert list(parent.iterdir()) == []


def test_a_client_gets_the_folders_and_its_limit(control: Path, parent: Path) -> None:
    with MpsDaemon(parent) as daemon:
        (folder,) = parent.iterdir()
        assert daemon.environment(25) == {
            "CUDA_MPS_PIPE_DIRECTORY": f"{folder}/pipe",
            "CUDA_MPS_LOG_DIRECTORY": f"{folder}/log",
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25",
        }
        assert daemon.environment(12.5)["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "12.5"
        for percentage in (0, 100.1):
            with pytest.raises(ValueError, match="0 < percentage <= 100"):
                daemon.environment(percentage)


def test_the_daemon_limits_nobody_and_hides_no_device(
    control: Path, parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "10")
    with MpsDaemon(parent) as daemon:
        pipe = Path(daemon.environment(50)["CUDA_MPS_PIPE_DIRECTORY"])
        seen = (pipe / "environment.json").read_text()
    assert "CUDA_MPS_LOG_DIRECTORY" in seen
    assert "CUDA_VISIBLE_DEVICES" not in seen
    assert "PERCENTAGE" not in seen


def test_closing_twice_is_closing_once(control: Path, parent: Path) -> None:
    daemon = MpsDaemon(parent)
    daemon.close()
    daemon.close()
    assert running(parent) == []


def test_two_daemons_leave_each_other_alone(control: Path, parent: Path) -> None:
    with MpsDaemon(parent):
        first = set(running(parent))
        with MpsDaemon(parent):
            assert len(running(parent)) == 4
        assert set(running(parent)) == first


def test_the_daemon_of_a_killed_process_is_ended_by_the_next(control: Path, parent: Path) -> None:
    code = "import sys, time; from pathlib import Path\n"
    code += "from costmodel.collector.runners._mps import MpsDaemon\n"
    code += "daemon = MpsDaemon(Path(sys.argv[1])); print('up', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code, str(parent)], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"up\n"
        owner.send_signal(signal.SIGKILL)
    left = set(running(parent))
    assert len(left) == 2
    with MpsDaemon(parent):
        assert len(running(parent)) == 2
        assert not left & set(running(parent))
        assert len(list(parent.iterdir())) == 1
    assert running(parent) == []


def test_what_another_user_left_is_left_alone(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[Path] = []
    left = parent / "costmodel-test-left"
    left.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: left.stat().st_uid + 1)
    HeldFolder("costmodel-test-", parent, released.append).delete()
    assert left.is_dir()
    monkeypatch.undo()
    HeldFolder("costmodel-test-", parent, released.append).delete()
    assert list(parent.iterdir()) == []
    assert released.count(left) == 1


def test_a_daemon_that_does_not_quit_is_killed(
    control: Path, parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_MPS", "deaf")
    daemon = MpsDaemon(parent, limit_s=5.0)
    assert len(running(parent)) == 2
    daemon.close()
    assert running(parent) == []
    assert list(parent.iterdir()) == []


@pytest.mark.parametrize("behaviour", ["fails", "silent"])
def test_a_daemon_that_does_not_come_up_is_told(
    behaviour: str, control: Path, parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_MPS", behaviour)
    with pytest.raises(CostModelError, match="must start within") as told:
        MpsDaemon(parent, limit_s=5.0)
    assert ("no device here" in str(told.value)) == (behaviour == "fails")
    assert running(parent) == []
    assert list(parent.iterdir()) == []


def test_a_machine_without_mps_is_told(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(parent))
    with pytest.raises(CostModelError, match="on the PATH"):
        MpsDaemon(parent)
    assert list(parent.iterdir()) == []


def test_a_daemon_of_all_is_there_or_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    monkeypatch.delenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", raising=False)
    with pytest.raises(CostModelError, match=r"but there is none at .* Start `nvidia-cuda-mps-control -d`"):
        check_shared_daemon()
    (tmp_path / "control").touch()
    check_shared_daemon()
    monkeypatch.setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "100")
    check_shared_daemon()
    monkeypatch.setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "25")
    with pytest.raises(CostModelError, match="limits no client, but CUDA_MPS_ACTIVE_THREAD_PERCENTAGE is 25"):
        check_shared_daemon()


@given(st.integers(1, 200), st.data())
def test_the_percentage_is_the_smallest_that_grants_enough(pairs: int, data: st.DataObject) -> None:
    total = 2 * pairs
    sms = data.draw(st.integers(1, total))
    granted = [percentage * total // 100 // 2 * 2 for percentage in range(101)]
    assert percentage_of(sms, total) == next(p for p, number in enumerate(granted) if number >= sms)


def test_the_percentages_of_an_h100() -> None:
    assert [percentage_of(sms, 132) for sms in (8, 32, 64, 131, 132)] == [7, 25, 49, 100, 100]
    with pytest.raises(ValueError, match="1 <= sms <= total_sms"):
        percentage_of(133, 132)
