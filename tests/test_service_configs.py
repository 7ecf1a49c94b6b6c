"""configs/service and its how-to: commands exist, and who lacks the certificate of the cluster is refused."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import postgres
import pytest
import sqlalchemy
from command_line import parse
from service import free_port

from costmodel.databases import parse_database
from costmodel.errors import CostModelError
from costmodel.service import DaskEngine, JobFile, JobStore, open_engine

yaml = pytest.importorskip("yaml")
distributed = pytest.importorskip("distributed")

ROOT = Path(__file__).parents[1]
COMPOSE = yaml.safe_load((ROOT / "configs" / "service" / "compose.yaml").read_text())
PAGE = (ROOT / "docs" / "how-to" / "tune-on-ten-machines.md").read_text()


def line_of(service: str) -> list[str]:
    """The command of a service, with the defaults of its variables."""
    return shlex.split(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", COMPOSE["services"][service]["command"]))


@pytest.mark.parametrize("service", ["gpu-worker", "metrics"])
def test_our_commands_parse(service: str) -> None:
    parse(shlex.join(line_of(service)))


@pytest.mark.parametrize("service", ["scheduler", "builder"])
def test_commands_of_dask_have_these_options(service: str) -> None:
    from distributed.cli import dask_scheduler, dask_worker

    program, name, *arguments = line_of(service)
    command: Any = {"scheduler": dask_scheduler, "worker": dask_worker}[name].main
    assert program == "dask"
    assert command.make_context(name, arguments).params["preload_argv"] == ()  # where unknown ones would be


def test_the_page_and_the_file_name_the_same_services() -> None:
    started = re.findall(r"docker compose .*--detach ([a-z -]+?)(?: +#.*)?$", PAGE, re.MULTILINE)
    assert {name for names in started for name in names.split()} == set(COMPOSE["services"])


@pytest.fixture
def database() -> Iterator[tuple[str, Path, Path]]:
    """URL of a database that has the file's settings; certificates of the cluster, and others."""
    programs = postgres.programs()
    if programs is None:
        pytest.skip("needs the programs of a PostgreSQL server, and psycopg2")
    with tempfile.TemporaryDirectory(prefix="pg") as name:
        folder, port = Path(name), free_port()
        own, others = (certificates(folder / name) for name in ("own", "others"))
        if user := postgres.server_user():
            shutil.chown(own / "database.key", user)
        for path in (folder, own):
            path.chmod(0o755)
        hba = shutil.copy(ROOT / "configs" / "service" / "pg_hba.conf", own)
        said = (
            " ".join(line_of("database")).replace("/etc/costmodel", str(own)).replace("/etc/pg_hba.conf", hba)
        )
        listening = [f"port={port}", "listen_addresses=localhost"]
        with postgres.server(programs, *re.findall(r"-c (\S+=\S+)", said), *listening) as local:
            admin = sqlalchemy.create_engine(parse_database(f"{local.format('postgres')}&port={port}"))
            with admin.begin() as connection:
                connection.execute(sqlalchemy.text("ALTER USER tests PASSWORD 'secret'"))
            yield f"postgresql://tests:secret@localhost:{port}/postgres", own, others


def test_only_who_has_the_certificate_of_the_cluster_opens_its_database(
    database: tuple[str, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, own, others = database
    names = [name for name in COMPOSE["services"]["gpu-worker"]["environment"] if name.startswith("PGSSL")]
    assert len(names) == 4

    def open_with(files: Path) -> JobStore:
        for name in names:
            value = COMPOSE["services"]["gpu-worker"]["environment"][name]
            monkeypatch.setenv(name, value.replace("/etc/costmodel", str(files)))
        return JobStore(url)

    assert open_with(own).list() == ()
    with pytest.raises(CostModelError, match="SSL error") as refused:
        open_with(others)
    assert "secret" not in str(refused.value)
    monkeypatch.setenv(
        "PGSSLROOTCERT", str(own / "ca.pem")
    )  # it believes the server, which does not believe it
    with pytest.raises(CostModelError, match="must be a database that answers"):
        JobStore(url)
    monkeypatch.setenv("PGSSLMODE", "disable")
    with pytest.raises(CostModelError, match="no encryption"):
        JobStore(url)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path, Path]]:
    """Address of a scheduler with one builder, as the file starts them; their certificates, and others."""
    folder = tmp_path_factory.mktemp("service")
    own, others = (certificates(folder / name) for name in ("own", "others"))
    port = str(free_port())
    scheduler = [word.replace("8786", port).replace(":8787", ":0") for word in line_of("scheduler")]
    started = [start(scheduler, own, folder), start(builder(port), own, folder)]
    yield f"tls://localhost:{port}", own, others
    for process in started:
        process.kill()
        process.wait()


def builder(port: str, *options: str) -> list[str]:
    return [*(word.replace("8786", port) for word in line_of("builder")), "--no-nanny", *options]


def certificates(folder: Path) -> Path:
    """An authority and its certificate, by the commands of the page."""
    (block,) = re.findall(r"```sh\n(mkdir -p certificates.*?)```", PAGE, re.DOTALL)
    folder.mkdir()
    subprocess.run(["bash", "-euc", block], cwd=folder, check=True, capture_output=True)
    return folder / "certificates"


def start(line: list[str], files: Path, folder: Path) -> "subprocess.Popen[bytes]":
    """Start a Dask process with the variables of the file, but for where certificates are."""
    variables = COMPOSE["services"]["builder"]["environment"]
    ours = {name: value.replace("/etc/costmodel", str(files)) for name, value in variables.items()}
    command = [sys.executable, "-m", *line]
    return subprocess.Popen(command, env={**os.environ, **ours}, cwd=folder, stderr=subprocess.DEVNULL)


def security(files: Path) -> Any:
    return distributed.Security(
        tls_ca_file=str(files / "ca.pem"),
        tls_client_cert=str(files / "own.pem"),
        tls_client_key=str(files / "own.key"),
        require_encryption=True,
    )


def test_jobs_run_with_the_certificate_of_the_cluster(cluster: tuple[str, Path, Path]) -> None:
    address, own, _ = cluster
    with open_engine(address, security=security(own)) as engine:
        assert engine.submit(divmod, 7, 2).result(600) == (3, 1)


def test_a_client_with_a_certificate_of_another_authority_is_refused(cluster: tuple[str, Path, Path]) -> None:
    address, _, others = cluster
    with pytest.raises(CostModelError, match="A Dask scheduler must answer"):
        open_engine(address, security=security(others), connect_timeout_s=1)


def test_a_builder_with_a_certificate_of_another_authority_gets_no_job(
    cluster: tuple[str, Path, Path], tmp_path: Path
) -> None:
    address, own, others = cluster
    port = address.rpartition(":")[2]
    with start(builder(port, "--name", "stranger", "--death-timeout", "2"), others, tmp_path) as stranger:
        assert stranger.wait() != 0
    with DaskEngine(address, security=security(own)) as engine:
        while not engine.workers():
            time.sleep(0.1)
        assert len(engine.workers()) == 1


@pytest.mark.tvm
@pytest.mark.faults
def test_the_services_of_the_file_do_a_job_together(
    database: tuple[str, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is started by its own command: with other ports and folders, and a CPU in the place of the GPU."""
    pytest.importorskip("tvm")
    pytest.importorskip("prometheus_client")
    url, own, _ = database
    ports = {"8786": str(free_port()), "9100": str(free_port()), "127.0.0.1:8787": "127.0.0.1:0"}
    for name, value in COMPOSE["services"]["gpu-worker"]["environment"].items():
        monkeypatch.setenv(name, value.replace("/etc/costmodel", str(own)))

    def command_of(service: str) -> list[str]:
        said = " ".join(line_of(service)).replace("--runner cuda", "--runner cpu")
        for there, here in {**ports, "/records": str(tmp_path / "records")}.items():
            said = said.replace(there, here)
        program, *words = re.sub(r"postgresql://\S+", url, said).split()
        own_options = ["--no-nanny"] if service == "builder" else []
        return [sys.executable, "-m", program, *words, *own_options]

    store = JobStore(url)
    job = JobFile(workloads=("matmul-m16-n16-k16",), sms=(1,), trials=2, runner="cpu").job()
    id_ = store.submit(job, submitter="tests")
    with ExitStack() as started:
        for service in ("scheduler", "builder", "gpu-worker", "metrics"):
            process = subprocess.Popen(command_of(service), cwd=tmp_path, stderr=subprocess.DEVNULL)
            started.callback(process.wait)
            started.callback(process.kill)
        while store.show(id_).state in ("waiting", "running"):
            time.sleep(0.5)
        with urlopen(f"http://127.0.0.1:{ports['9100']}/metrics") as page:
            told = page.read().decode()
    assert store.show(id_).state == "done"
    assert store.show(id_).trials == 2
    assert re.search(r'costmodel_jobs\{state="done"\} 1.0', told)
