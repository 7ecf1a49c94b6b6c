"""Running the commands that make figures, each at most once."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import inf
from pathlib import Path

import msgspec
from figures import Step

ROOT = Path(__file__).parents[2]
SHOWN = 12  # last lines of a failed command
LOOK_ALIKE = 0.02  # mean difference of two pictures, of 1 from black to white


class Done(msgspec.Struct, frozen=True):
    """What is kept of a step that was run.

    Attributes:
        step: Its name.
        command: What was run.
        wall_s: Seconds that it took.
        cpu_s: Seconds of the processor, of all its processes.
        failed: Its last lines; empty where it went well.
    """

    step: str
    command: tuple[str, ...]
    wall_s: float
    cpu_s: float
    failed: str = ""


@dataclass(frozen=True)
class Runner:
    """Runs steps.

    Attributes:
        out: Folder of results.
        caches: Folder of third parties' files; None if there is none.
    """

    out: Path
    caches: Path | None

    def all(self, steps: Sequence[Step], processes: int, within: float | None = None) -> Iterator[Done]:
        """Each step, the longest first, but those last that wait for others.

        Args:
            steps: The steps.
            processes: How many of them are run at once.
            within: Minutes after which none should run. Then the shortest come first, and those are left out
                that would not end by then.
        """
        self.out.mkdir(parents=True, exist_ok=True)
        deadline = inf if within is None else time.monotonic() + 60 * within
        ordered = sorted(steps, key=lambda step: step.minutes, reverse=within is None)
        with ThreadPoolExecutor(processes) as pool:
            for those in ([s for s in ordered if not s.after], [s for s in ordered if s.after]):
                yield from filter(None, pool.map(lambda step: self._in_time(step, deadline), those))

    def result(self, step: Step) -> Path:
        """The step's JSON."""
        return self.out / f"{step.name}.json"

    def _in_time(self, step: Step, deadline: float) -> Done | None:
        is_late = time.monotonic() + 60 * step.minutes > deadline
        return self.before(step) if is_late else self.once(step)

    def once(self, step: Step) -> Done:
        """Run a step, unless this very command was done before."""
        if before := self.before(step):
            return before
        print(f"{step.name}: started, about {step.minutes:g} min", file=sys.stderr, flush=True)
        done = self._run(step, self.command(step))
        self._note(step).write_bytes(msgspec.json.encode(done))
        print(
            f"{step.name}: {done.wall_s:.0f} s, {done.cpu_s:.0f} s of processor", file=sys.stderr, flush=True
        )
        return done

    def before(self, step: Step) -> Done | None:
        """What is kept of a step, if this very command was done before and went well."""
        if not (self._note(step).exists() and self.result(step).exists()):
            return None
        done = msgspec.json.decode(self._note(step).read_bytes(), type=Done)
        return done if done.command == self.command(step) and not done.failed else None

    def command(self, step: Step) -> tuple[str, ...]:
        """The words of its command, with the folders in them."""
        return tuple(self.filled(word) for word in step.command)

    def filled(self, word: str) -> str:
        """A word of a command or a path, with the folders in it."""
        return word.replace("{out}", str(self.out)).replace("{caches}", str(self.caches or ""))

    def _note(self, step: Step) -> Path:
        return self.out / f"{step.name}.done"

    def _run(self, step: Step, command: tuple[str, ...]) -> Done:
        start, log = time.monotonic(), self.out / f"{step.name}.log"
        programs = {"python": sys.executable, "costmodel": str(Path(sys.executable).with_name("costmodel"))}
        words = [programs.get(command[0], command[0]), *command[1:]]
        paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
        environment = {
            "OMP_NUM_THREADS": "1",
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        }
        with log.open("wb") as file:
            process = subprocess.Popen(words, cwd=ROOT, env=environment, stdout=file, stderr=file)
            _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        last = "\n".join(log.read_text(errors="replace").splitlines()[-SHOWN:])
        failed = "" if process.returncode == 0 else f"exit code {process.returncode}\n{last}"
        return Done(step.name, command, time.monotonic() - start, used.ru_utime + used.ru_stime, failed)


def looks_alike(drawn: Path, committed: Path | None) -> bool:
    """Whether a picture was drawn, and looks as the committed one does where there is one."""
    if not drawn.exists():
        return False
    if committed is None:
        return True
    from matplotlib.image import imread

    pictures = [imread(path)[..., :3] for path in (drawn, committed)]
    if pictures[0].shape != pictures[1].shape:
        return False
    return float(abs(pictures[0] - pictures[1]).mean()) <= LOOK_ALIKE
