"""A temporary folder that a process holds: what a killed one left, the next one cleans up."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from costmodel.errors import CostModelError


class HeldFolder:
    """A temporary folder that is locked as long as the process lives.

    Attributes:
        path: The folder.
    """

    def __init__(
        self, prefix: str, parent: Path | None = None, release: Callable[[Path], None] | None = None
    ) -> None:
        """Make the folder, and delete those that nobody holds any more.

        Args:
            prefix: How the names of these folders begin.
            parent: Where they are; the folder for temporary files unless given.
            release: What must happen before such a folder is deleted, by whomever.
        """
        root = parent or Path(tempfile.gettempdir())
        for other in root.glob(f"{prefix}*"):
            _delete_if_left(other, release)
        new = Path(tempfile.mkdtemp(prefix="costmodel-new-", dir=root))
        lock = os.open(new, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        # It gets its name when it is locked, or another process could take it for one that was left.
        self.path = new.rename(new.with_name(prefix + new.name.removeprefix("costmodel-new-")))
        self._cleanup = _cleanup(lock, self.path, release)

    def delete(self) -> None:
        """Delete the folder. May be called twice."""
        self._cleanup.close()


def _cleanup(lock: int, folder: Path, release: Callable[[Path], None] | None) -> ExitStack:
    """What ends a locked folder; the lock is let go last, and also when something fails."""
    cleanup = ExitStack()
    cleanup.callback(os.close, lock)
    cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
    if release:
        cleanup.callback(release, folder)
    return cleanup


def _delete_if_left(folder: Path, release: Callable[[Path], None] | None) -> None:
    with suppress(OSError, CostModelError):  # another process or user has it, or it cannot be released
        lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            if os.fstat(lock).st_uid != os.getuid():  # root could delete it, but must not trust what is in it
                raise PermissionError(folder)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise
        _cleanup(lock, folder, release).close()
