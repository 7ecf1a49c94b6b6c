"""The temporary folder of a runner: where a killed runner left one, the next runner deletes it."""

import fcntl
import os
import shutil
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

_PREFIX = "costmodel-kernels-"


class KernelFolder:
    """A temporary folder that is locked as long as the process lives.

    Attributes:
        path: The folder.
    """

    def __init__(self) -> None:
        """Make the folder, and delete those that nobody holds any more."""
        for other in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            _delete_if_left(other)
        new = Path(tempfile.mkdtemp(prefix="costmodel-new-"))
        lock = os.open(new, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        # It gets its name when it is locked, or another runner could take it for one that was left.
        self.path = new.rename(new.with_name(_PREFIX + new.name.removeprefix("costmodel-new-")))
        self._cleanup = ExitStack()
        self._cleanup.callback(os.close, lock)
        self._cleanup.callback(shutil.rmtree, self.path, ignore_errors=True)

    def delete(self) -> None:
        """Delete the folder. May be called twice."""
        self._cleanup.close()


def _delete_if_left(folder: Path) -> None:
    with suppress(OSError):  # another runner holds it, or another user owns it
        lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)
