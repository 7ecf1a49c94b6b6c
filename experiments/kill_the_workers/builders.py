"""What does kill -9 cost that meets builders, their pool or scheduler, and those who wait? See README.md."""

import argparse
import hashlib
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import psutil

HERE = Path(__file__).resolve().parent
TESTS = HERE.parents[1] / "tests"
sys.path += [str(TESTS), str(HERE)]

from service import free_port  # noqa: E402
from stages import content  # noqa: E402

from costmodel.files import write_json  # noqa: E402

CLIENTS, BUILDERS = 3, 2
_ERROR = re.compile(r"costmodel\.[\w.]+: ")
Line = tuple[str, ...]


class Crowd:
    """Processes by name; whatever is killed is started again.

    Args:
        lines: How each is started.
        folder: Where it is at work.
    """

    def __init__(self, lines: dict[str, Line], folder: Path) -> None:
        paths = [str(HERE), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(folder)}
        self._lines, self._folder = lines, folder
        self._running = {name: self._start(name) for name in lines}

    def _start(self, name: str) -> "subprocess.Popen[bytes]":
        with (self._folder / f"{name}.log").open("ab") as log:
            line = [sys.executable, *self._lines[name]]
            return subprocess.Popen(line, cwd=self._folder, stdout=log, stderr=log, env=self._environment)

    def kill(self, name: str) -> None:
        """Kill a process, and start it again."""
        self._running[name].kill()
        self._running[name].wait()
        self._running[name] = self._start(name)

    def kill_a_child(self, name: str, chance: random.Random) -> bool:
        """Kill a builder of a pool, which replaces it; whether there was one."""
        children = psutil.Process(self._running[name].pid).children(recursive=True)
        if children:
            chance.choice(children).kill()
        return bool(children)

    def have_ended(self, names: list[str]) -> bool:
        """Whether these have done what they were for."""
        return all(self._running[name].poll() == 0 for name in names)

    def restart_failed(self, names: list[str]) -> dict[str, str]:
        """Start those again that ended by themselves with an error, as whoever looks after them would.

        Returns:
            What each said of why.
        """
        said = {}
        for name in names:
            if (self._running[name].poll() or 0) > 0:
                lines = (self._folder / f"{name}.log").read_text(errors="replace").splitlines()
                said[name] = next((line for line in reversed(lines) if _ERROR.match(line)), "")[:500]
                self._running[name] = self._start(name)
        return said

    def close(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()


def main() -> None:
    """Kill at random moments until there were enough kills, and count what was lost or made again."""
    args = parse()
    result = {kind: crowd(kind, args) for kind in args.engine}
    print(result)
    if args.json:
        write_json(args.json, result)


def crowd(kind: str, args: argparse.Namespace) -> dict[str, object]:
    """Clients that ask an engine of a kind for stages, while what takes part is killed."""
    chance, kills = random.Random(args.seed), Counter[str]()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, ExitStack() as stack:
        folder = Path(name)
        for each in ("artifacts", "built", "told"):
            (folder / each).mkdir()
        lines = engine_lines(kind, folder)
        clients = [f"client {i}" for i in range(CLIENTS)]
        for i, client in enumerate(clients):
            numbers = (str(i), str(args.stages), str(CLIENTS))
            lines[client] = (str(HERE / "stages.py"), "ask", address_of(lines, folder), str(folder), *numbers)
        running = Crowd(lines, folder)
        stack.callback(running.close)
        end, failed = time.monotonic() + args.seconds, list[str]()
        while not running.have_ended(clients) and time.monotonic() < end:
            time.sleep(chance.uniform(*args.pause))
            failed += running.restart_failed(clients).values()
            if kills.total() < args.kills and (killed := kill_one(running, lines, clients, chance)):
                kills[killed] += 1
        return {"kills": dict(kills), "failed": failed, **counted(folder, args.stages)}


def kill_one(running: Crowd, lines: dict[str, Line], clients: list[str], chance: random.Random) -> str | None:
    """Kill a builder in half of the cases, a client in three of ten, else the pool or scheduler."""
    drawn = chance.random()
    if drawn < 0.3:
        running.kill(chance.choice(clients))
        return "client"
    if "pool" in lines:
        if drawn < 0.5:
            running.kill("pool")
            return "pool"
        return "builder" if running.kill_a_child("pool", chance) else None
    if drawn < 0.4:
        running.kill("scheduler")
        return "scheduler"
    running.kill(chance.choice([name for name in lines if name.startswith("builder")]))
    return "builder"


def engine_lines(kind: str, folder: Path) -> dict[str, Line]:
    """How the processes of an engine are started."""
    if kind == "pool":
        return {"pool": (str(HERE / "stages.py"), "serve", f"unix://{folder}/pool.sock", str(BUILDERS))}
    port = str(free_port())
    dask = ("-m", "dask")
    lines = {"scheduler": (*dask, "scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")}
    worker = ("worker", f"tcp://127.0.0.1:{port}", "--nthreads", "1", "--no-dashboard", "--no-nanny")
    for i in range(BUILDERS):
        lines[f"builder {i}"] = (*dask, *worker, "--local-directory", str(folder / f"builder-{i}"))
    return lines


def address_of(lines: dict[str, Line], folder: Path) -> str:
    """Where clients find the engine."""
    if "pool" in lines:
        return f"unix://{folder}/pool.sock"
    return f"tcp://127.0.0.1:{lines['scheduler'][6]}"


def counted(folder: Path, stages: int) -> dict[str, int]:
    """Stages that were not told, that were told wrongly, and that were done more than once."""
    built = Counter(path.name.partition(".")[0] for path in (folder / "built").iterdir())
    told = {path.name: path.read_text() for path in (folder / "told").iterdir() if "." not in path.name}
    right = {str(i): hashlib.sha256(content(i)).hexdigest() for i in range(stages)}
    return {
        "stages": stages,
        "lost": len(right.keys() - told.keys()),
        "wrong": sum(told[name] != right[name] for name in told),
        "done_again": built.total() - len(built),
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", nargs="+", choices=("pool", "dask"), default=["pool", "dask"])
    parser.add_argument("--kills", type=int, default=250, help="of each engine's crowd")
    parser.add_argument("--stages", type=int, default=3000, help="that clients ask for")
    parser.add_argument("--pause", type=float, nargs=2, default=(0.2, 1.5), metavar="S", help="between kills")
    parser.add_argument("--seconds", type=float, default=900.0, help="for each engine at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
