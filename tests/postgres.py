"""A PostgreSQL server of the tests' own, on a socket in a folder of its own."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import sqlalchemy

from costmodel.databases import parse_database


def programs() -> Path | None:
    """The folder of ``initdb`` and ``pg_ctl``; None where there is no server, or no driver for it.

    The system's come first, then those of the Python package pgserver.
    """
    found = [Path(p).resolve().parent for p in [shutil.which("initdb")] if p]
    found += [p.parent for p in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if (package := find_spec("pgserver")) and package.origin:
        found.append(Path(package.origin).parent / "pginstall" / "bin")
    return found[0] if found and find_spec("psycopg2") else None


@contextmanager
def server(programs: Path, *settings: str) -> Iterator[str]:
    """Start a server with an empty cluster; the URL of its databases, with braces for the name.

    Args:
        programs: See ``programs``.
        settings: As ``name=value``.
    """
    user = server_user()
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # short, as the path of a socket must be

    def run(program: str, *arguments: object) -> None:
        command = [str(programs / program), *map(str, arguments)]
        subprocess.run(command, check=True, user=user, stdout=subprocess.DEVNULL, cwd="/")

    try:
        if user:
            shutil.chown(folder, user)
            programs = _for_all(programs, folder)
        data = folder / "data"
        run("initdb", "--no-sync", "--auth=trust", "--username=tests", "-D", data)
        own = ["listen_addresses=''", "fsync=off", f"unix_socket_directories={folder}", *settings]
        options = " ".join(f"-c {setting}" for setting in own)
        run("pg_ctl", "start", "--wait", "-D", data, "-l", folder / "log", "-o", options)
        try:
            yield f"postgresql://tests@/{{}}?host={folder}"
        finally:
            run("pg_ctl", "stop", "--mode=immediate", "-D", data)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def emptied(url: str) -> str:
    """A database that had tables, without them."""
    engine = sqlalchemy.create_engine(parse_database(url), poolclass=sqlalchemy.NullPool)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("DROP SCHEMA public CASCADE"))
        connection.execute(sqlalchemy.text("CREATE SCHEMA public"))
    return url


def end_connections(url: str) -> int:
    """End all other connections to a database, as an administrator may; how many there were."""
    engine = sqlalchemy.create_engine(parse_database(url), poolclass=sqlalchemy.NullPool)
    others = "pid <> pg_backend_pid() AND datname = current_database()"
    with engine.connect() as connection:
        ended = sqlalchemy.text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
        return len(connection.execute(ended).all())


def crash(url: str) -> None:
    """Have the server of a database end at once, and recover, as where its machine goes down."""
    found, folder = programs(), Path(str(parse_database(url).query["host"]))
    assert found
    line = [str(found / "pg_ctl"), "restart", "--mode=immediate", "--wait", "-D", str(folder / "data")]
    line += ["-l", str(folder / "log")]
    subprocess.run(line, check=True, user=server_user(), stdout=subprocess.DEVNULL, cwd="/")


def server_user() -> str | None:
    """Who runs the server where root would, which PostgreSQL refuses; None for whoever asks."""
    if os.geteuid() != 0:
        return None
    with suppress(KeyError):
        return pwd.getpwnam("postgres").pw_name
    return "nobody"


def _for_all(programs: Path, folder: Path) -> Path:
    """Programs that any user may run: a copy of pgserver's where a folder above keeps others out."""
    if all(parent.stat().st_mode & 0o005 == 0o005 for parent in (programs, *programs.parents)):
        return programs
    packages = programs.parents[2]
    for name in ("pgserver", "pgserver.libs"):
        shutil.copytree(packages / name, folder / name, symlinks=True)
    return folder / programs.relative_to(packages)
