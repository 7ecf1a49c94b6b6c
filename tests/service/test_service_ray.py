"""The contract of engines on workers of Ray, and what only these meet."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest

from costmodel.collector._engine import WorkerDiedError
from costmodel.errors import CostModelError
from costmodel.service import RayEngine, open_engine
from costmodel.testing import ENGINE_CHECKS, EngineCase

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.ray, pytest.mark.white_box]

RESOURCES = {"build": 1.0}


@pytest.fixture(scope="module", autouse=True)
def of_this_process() -> Iterator[None]:
    """A Ray with two workers, which all engines share, and whose workers can import this file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        with RayEngine(num_cpus=2, resources={"build": 2}):
            yield


@pytest.mark.parametrize("check", ENGINE_CHECKS)
def test_ray_engine_keeps_the_contract(check: Callable[[EngineCase], None]) -> None:
    check(EngineCase(RayEngine, RESOURCES))


def take_the_worker_down(folder: Path, times: int) -> int:
    """Kill the Ray worker whose job process this is, if fewer than ``times`` were; else how many were."""
    killed = len(list(folder.iterdir()))
    if killed < times:
        (folder / str(os.getppid())).touch()
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)
    return killed


def test_the_job_of_a_ray_worker_that_is_killed_runs_on_another(tmp_path: Path) -> None:
    with RayEngine() as engine:
        assert engine.submit(take_the_worker_down, tmp_path, 1).result(600) == 1


def test_a_job_that_kills_one_ray_worker_after_the_other_is_given_up(tmp_path: Path) -> None:
    with RayEngine(retries=1) as engine:
        error = engine.submit(take_the_worker_down, tmp_path, 99, key="the deadly one").exception(600)
        assert isinstance(error, WorkerDiedError)
        assert error.reason == "2 Ray workers, one after the other"
        assert "the deadly one" in str(error)
        assert engine.submit(divmod, 7, 2).result(600) == (3, 1)
    assert len(list(tmp_path.iterdir())) == 2


def test_an_engine_leaves_the_connection_of_others_open() -> None:
    with RayEngine() as first:
        with RayEngine() as second:
            assert second.submit(divmod, 7, 2).result(600) == (3, 1)
        assert first.submit(divmod, 7, 2).result(600) == (3, 1)
    assert ray.is_initialized()


def test_ray_of_this_machine_shares_files_and_that_of_others_does_not() -> None:
    with open_engine("ray://") as engine:
        assert isinstance(engine, RayEngine)
        assert engine.shares_files
        assert [worker.slots for worker in engine.workers()] == [2]
        assert [dict(worker.resources) for worker in engine.workers()] == [{"build": 2.0}]


@pytest.mark.parametrize("address", ["ray://192.0.2.1:10001", "ray://builder.example:10001"])
def test_other_machines_must_be_spoken_to_through_tls(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_USE_TLS", raising=False)
    with pytest.raises(CostModelError, match=f"RAY_USE_TLS is not 1 for {address}"):
        open_engine(address)


def tls_variables(folder: Path) -> dict[str, str]:
    """Ray's variables for certificates of this machine, of an authority that nobody else knows."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    hosts = [x509.IPAddress(ip_address(host)) for host in ("127.0.0.1", ray.util.get_node_ip_address())]
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in ("ca", "own")]
    keys = [generate_private_key(SECP256R1()) for _ in names]
    now, day = datetime.now(UTC), timedelta(days=1)
    files = {
        "CA_CERT": folder / "ca.pem",
        "SERVER_CERT": folder / "own.pem",
        "SERVER_KEY": folder / "own.key",
    }
    for name, key, file in zip(names, keys, files.values(), strict=False):
        certificate = (
            x509.CertificateBuilder(names[0], name, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + day)
            .add_extension(x509.BasicConstraints(ca=name is names[0], path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
            .sign(keys[0], hashes.SHA256())
        )
        file.write_bytes(certificate.public_bytes(Encoding.PEM))
    own_key = keys[1].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    files["SERVER_KEY"].write_bytes(own_key)
    return {"RAY_USE_TLS": "1", **{f"RAY_TLS_{name}": str(file) for name, file in files.items()}}


# Ray does not start where any process of the machine is a zombie, and now and then its server for a client
# dies before it writes a line.
NOT_STARTED = ("ZombieProcess", "Starting Ray client server failed")


def test_jobs_go_through_tls_to_the_ray_of_an_address(tmp_path: Path) -> None:
    """In a process of its own, as a process is connected to one Ray at a time."""
    pytest.importorskip("cryptography")
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, Path(__file__).with_name("on_a_ray_client.py")],
            env={**os.environ, **tls_variables(tmp_path), "RAY_AUTH_MODE": "disabled"},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        if not any(reason in done.stderr for reason in NOT_STARTED):
            break
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "(3, 1) ZeroDivisionError cancelled"
