"""What a process holds while it lives: SMs of a device, and folders that the next one else cleans up."""

import fcntl
import os
import shutil
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
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


# More SMs than any device has: taking all of them, a process has the device to itself.
WHOLE = range(1 << 16)
# Not the folder of TMPDIR: processes that do not meet would measure beside each other, and nobody would know.
_SHARED = Path("/tmp")  # noqa: S108 (the file is opened as nothing but a file, and nothing is read from it)
_POLL_S = 0.0005


class SmLedger:
    """Who measures on which SMs of a device of this machine.

    A file stands for the device, each of its bytes for an SM, and a lock of the operating system on a byte
    for having the SM. So no SM is had twice, and those of a process that is killed come free at once.

    Args:
        device: What all processes of the machine call the device, such as its PCI bus id.
        parent: Folder of the file, the same for all.
    """

    def __init__(self, device: str, parent: Path = _SHARED) -> None:
        self._path = parent / f"costmodel-sms-{device.replace('/', '-')}.lock"

    @contextmanager
    def taken(self, *choices: range) -> Iterator[range]:
        """Take SMs as long as the context lasts: the first of these ranges that is free.

        Where none is, it waits, and whoever comes later waits behind it: who wants the whole device gets it
        as soon as those who measure now are done.

        Args:
            choices: Ranges of SMs; ``WHOLE`` for all that there are.
        """
        ledger = _opened(self._path)
        try:
            fcntl.flock(ledger, fcntl.LOCK_EX)  # the queue: it has nothing to do with locks on bytes
            while (found := next((sms for sms in choices if _take(ledger, sms)), None)) is None:
                time.sleep(_POLL_S)
            fcntl.flock(ledger, fcntl.LOCK_UN)
            yield found
        finally:
            os.close(ledger)  # which lets go of all


def _opened(path: Path) -> int:
    """The file of a ledger, which any user may open."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        with suppress(FileNotFoundError):
            return os.open(path, flags)
        with suppress(FileExistsError):
            ledger = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
            os.fchmod(ledger, 0o666)  # whatever the umask says
            return ledger


def _take(ledger: int, sms: range) -> bool:
    """Lock bytes, as part of what this file descriptor has; whether nobody else has any of them.

    Locks of a process (``fcntl.lockf``) would not keep its threads apart.
    """
    lock = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, sms.start, len(sms), 0)
    try:
        fcntl.fcntl(ledger, fcntl.F_OFD_SETLK, lock)
    except BlockingIOError:
        return False
    return True
