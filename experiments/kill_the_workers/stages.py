"""What builders do while they, their pool or scheduler, or those who wait for them are killed: see README.

A client does a worker's part of it: it asks through ``Building`` for stages, and keeps what it is told.
"""

import hashlib
import sys
import time
import uuid
from concurrent.futures import CancelledError
from contextlib import closing
from pathlib import Path

from costmodel.collector import EngineLostError
from costmodel.collector._local_engine import LocalEngine
from costmodel.files import write_whole
from costmodel.service._builder_pool import BuilderPool
from costmodel.service._building import Building

STAGE_S = 0.2
_AT_ONCE = 4  # stages that a client waits for


def stage(folder: Path, number: int) -> str:
    """Build: leave an artifact unless it is there, and a note that it was built; the hash of the artifact."""
    path = folder / "artifacts" / str(number)
    if not path.exists():
        time.sleep(STAGE_S)
        (folder / "built" / f"{number}.{uuid.uuid4().hex}").touch()
        write_whole(path, content(number))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def content(number: int) -> bytes:
    """What the artifact of a stage holds."""
    return str(number).encode() * 1000


def ask(address: str, folder: Path, numbers: range) -> None:
    """Have all stages done that are not told yet, and keep what is told, each in a file."""
    told = folder / "told"
    with closing(Building(address)) as building:
        left = [number for number in numbers if not (told / str(number)).exists()]
        while left:
            try:
                jobs = {number: building.engine().submit(stage, folder, number) for number in left[:_AT_ONCE]}
                for number, job in jobs.items():
                    write_whole(told / str(number), job.result().encode())
                    left.remove(number)
            except EngineLostError as error:
                building.reopen(error)
            except CancelledError:  # of an engine that is lost: it is asked again, and says so
                continue


def serve(address: str, builders: int) -> None:
    """Be a pool of builders, until killed."""
    with LocalEngine(builders) as engine, closing(BuilderPool(Path(address.removeprefix("unix://")), engine)):
        time.sleep(1e6)


if __name__ == "__main__":
    import stages  # where processes of Dask find what they are asked to run

    role, where, *others = sys.argv[1:]
    if role == "serve":
        stages.serve(where, int(others[0]))
    else:
        stages.ask(where, Path(others[0]), range(int(others[1]), int(others[2]), int(others[3])))
