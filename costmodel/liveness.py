"""What a process has while it lives, and nobody else: by a lease, or by a lock.

What processes of several machines share is leased: a row says who took it, and until when unless that is
renewed. What processes of one machine share (folders, bytes of files, SMs of a device) is locked by the
operating system, which lets go of it when a process ends, however it ends.
"""

import fcntl
import getpass
import glob
import math
import os
import shutil
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

from costmodel.errors import CostModelError


@dataclass(frozen=True)
class ProcessMark:
    """Identity of a process among all processes of its host.

    Attributes:
        host: Name of its host.
        pid: Process id.
        started: When it started, see ``_started``.
    """

    host: str
    pid: int
    started: int | None

    @classmethod
    def own(cls) -> Self:
        """That of this process."""
        return cls(socket.gethostname(), os.getpid(), _started(os.getpid()))

    @property
    def is_of_this_host(self) -> bool:
        """Whether it can be known here if the process lives."""
        return self.host == socket.gethostname()

    def holds(self, until: float = math.inf, *, now: float | None = None) -> bool:
        """Whether what the process leased is still its own; what one of this host had is free when it ends.

        Args:
            until: Seconds since the epoch; inf where nobody renews, so that nothing is known of other hosts.
            now: Seconds since the epoch. Default: the clock's.
        """
        is_gone = self.is_of_this_host and _started(self.pid) != self.started
        return not is_gone and (time.time() if now is None else now) <= until


def user_name() -> str:
    """Return whose process this is: a name, or the number of a user without one, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # which of them depends on the version of Python
        return str(os.getuid())


@contextmanager
def renewing(renew: Callable[[], object], every_s: float) -> Iterator[None]:
    """Renew leases, or what else must be looked after, on a thread as long as the context lasts.

    What fails is tried again the next time: a store may answer again before a lease runs out.
    """
    done = threading.Event()

    def go_on() -> None:
        while not done.wait(every_s):
            with suppress(Exception):
                renew()

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _started(pid: int) -> int | None:
    """Something that tells a process from others that have its number at another time; None if there is none.

    On Linux that is when it started, in clock ticks since boot (proc(5), field 22 of ``stat``); elsewhere 0.
    """
    try:
        # The second field is the name in parentheses, which may hold spaces.
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None if Path("/proc/self/stat").exists() else _alive(pid)
    return None if stat[0] == "Z" else int(stat[19])


def _alive(pid: int) -> int | None:
    """0 where a process has this number, else None."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return 0
    return 0


# What a folder is called until it is locked.
_NEW = ".costmodel-new-"


class HeldFolder:
    """A temporary folder that is locked as long as the process lives.

    The lock is one of this machine's kernel, on network file systems too, where those on files need not be:
    folders of a place that several machines share must have names that tell them apart.

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
        for other in root.glob(f"{glob.escape(prefix)}*"):
            _delete_if_left(other, release)
        new = Path(tempfile.mkdtemp(prefix=_NEW, dir=root))
        lock = os.open(new, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        # It gets its name when it is locked, or another process could take it for one that was left.
        self.path = new.rename(new.with_name(prefix + new.name.removeprefix(_NEW)))
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


@contextmanager
def locked_byte(path: Path, position: int) -> Iterator[None]:
    """Hold a byte of a file, which is made if need be; other processes that ask for the byte wait."""
    with path.open("ab") as file:
        fcntl.lockf(file, fcntl.LOCK_EX, 1, position)  # until it is closed
        yield


def take_byte(path: Path, position: int) -> Callable[[], None] | None:
    """Lock a byte of a file, which is made if need be, until the function that is returned is called.

    Returns:
        None where another process, or other code of this one, has it.
    """
    file = _opened(path)
    if not _take(file, range(position, position + 1)):
        os.close(file)
        return None
    return partial(os.close, file)  # which lets go of it


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
