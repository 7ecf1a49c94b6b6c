"""A PostgreSQL server of the tests' own, on a socket in a folder of its own."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path


def programs() -> Path | None:
    """The folder of ``initdb`` and ``pg_ctl``; None where there is no server, or no driver for it."""
    found = [Path(p).parent for p in [shutil.which("initdb")] if p]
    found += [p.parent for p in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    return found[0] if found and find_spec("psycopg2") else None


@contextmanager
def server(programs: Path) -> Iterator[str]:
    """Start a server with an empty cluster; the URL of its databases, with braces for the name."""
    user = "postgres" if os.geteuid() == 0 else None  # it refuses to run as root

    def run(program: str, *arguments: object) -> None:
        command = [str(programs / program), *map(str, arguments)]
        subprocess.run(command, check=True, user=user, stdout=subprocess.DEVNULL, cwd="/")

    folder = Path(tempfile.mkdtemp(prefix="pg"))  # short, as the path of a socket must be
    try:
        if user:
            shutil.chown(folder, user)
        data = folder / "data"
        run("initdb", "--no-sync", "--auth=trust", "--username=tests", "-D", data)
        options = f"-c listen_addresses='' -c fsync=off -k {folder}"
        run("pg_ctl", "start", "--wait", "-D", data, "-l", folder / "log", "-o", options)
        try:
            yield f"postgresql+psycopg2://tests@/{{}}?host={folder}"
        finally:
            run("pg_ctl", "stop", "--mode=immediate", "-D", data)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
