"""A CUDA MPS control daemon of our own: processes that each may use a share of the SMs at once.

Source: NVIDIA "Multi-Process Service", "Volta MPS Execution Resource Provisioning" and "Environment
Variables". MPS works in the default compute mode, which is left alone. A client that is killed must be idle;
after one that was not, the server may refuse or hang ("Client Early Termination"): start a new daemon then.
"""

import os
import signal
import subprocess
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from shutil import which
from types import TracebackType
from typing import Self

from costmodel.errors import CostModelError, DeviceUnavailableError
from costmodel.liveness import HeldFolder

_CONTROL = "nvidia-cuda-mps-control"
_NAME = "nvidia-cuda-mps"  # the control daemon and its servers, as the kernel cuts names, to 15 characters
_PIPE, _LIMIT = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
_USUAL_PIPE = "/tmp/nvidia-mps"  # noqa: S108 (where the driver's own programs look)
_POLL_S = 0.05
_SHORT = Path("/tmp")  # noqa: S108 (a socket's path has under 108 characters; HeldFolder makes a folder in it)


class MpsDaemon:
    """An MPS control daemon with private sockets, which other users of the GPU do not meet.

    It ends with the ``with`` block, and so do its servers. Where a killed process left one, the next that is
    started ends it.
    """

    def __init__(self, parent: Path = _SHORT, *, limit_s: float = 10.0) -> None:
        """Start the daemon, and wait until it answers.

        Args:
            parent: Where its folder is made; the path must be short.
            limit_s: Seconds that the daemon has to answer, and to end before it is killed.

        Raises:
            CostModelError: There is no MPS, or no daemon comes up.
        """
        if which(_CONTROL) is None:
            raise CostModelError(
                f"MPS must have {_CONTROL} on the PATH, which comes with the NVIDIA driver, but it is not "
                "there. Install it, or use green contexts."
            )
        self._folder = HeldFolder("costmodel-mps-", parent, partial(_stop, limit_s=limit_s))
        try:
            _start(self._folder.path, limit_s)
        except BaseException:
            self.close()
            raise

    def environment(self, percentage: float) -> dict[str, str]:
        """Variables that make a process a client, which may use ``percentage`` of the SMs.

        They count when the process opens CUDA; its limit then stays. See ``percentage_of``.
        """
        if not 0 < percentage <= 100:
            raise ValueError(f"`0 < percentage <= 100` must hold, but got {percentage}")
        limit = {_LIMIT: f"{percentage:g}"}
        return _directories(self._folder.path) | limit

    def close(self) -> None:
        """End the daemon and its servers, and delete its folder. May be called twice.

        Its clients must have ended: the daemon waits for them, and is killed if that takes too long.

        Raises:
            CostModelError: It cannot be ended.
        """
        self._folder.delete()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check_shared_daemon() -> None:
    """Check that a daemon that is not ours lets the processes of this user have SMs of the GPU at once.

    Raises:
        DeviceUnavailableError: None is there, or it limits its clients, which overrides green contexts.
    """
    pipe = Path(os.environ.get(_PIPE, _USUAL_PIPE))
    limit = os.environ.get(_LIMIT, "100")
    if not (pipe / "control").exists() or limit != "100":
        found = f"{_LIMIT} is {limit}" if limit != "100" else f"there is none at {pipe}"
        raise DeviceUnavailableError(
            f"Lanes must have an MPS daemon that limits no client, but {found}. Start `{_CONTROL} -d` "
            "before the workers, or run the workers without lanes, so that they take turns."
        )


def percentage_of(sms: int, total_sms: int) -> int:
    """The smallest whole percentage that grants at least ``sms`` of ``total_sms`` SMs.

    MPS rounds a percentage down to what the hardware can set apart; that is taken for pairs of SMs, which
    share a TPC (on an H100, 25 % of 132 SMs, which are 33, granted 32). A whole percentage, for the manual
    shows no other; with up to 200 SMs it is never coarser than a pair. What was granted, the client counts.
    """
    if not 1 <= sms <= total_sms:
        raise ValueError(f"`1 <= sms <= total_sms` must hold, but got sms={sms}, total_sms={total_sms}")
    pairs = -(-sms // 2)
    return min(100, -(-100 * 2 * pairs // total_sms))


def _directories(folder: Path) -> dict[str, str]:
    """Variables that daemon and clients share."""
    return {
        _PIPE: str(folder / "pipe"),
        "CUDA_MPS_LOG_DIRECTORY": str(folder / "log"),
    }


def _daemon_environment(folder: Path) -> dict[str, str]:
    """The daemon limits nobody and sees every device: a client's limits apply on top of the daemon's."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("CUDA_MPS_") and name != "CUDA_VISIBLE_DEVICES"
    }
    return inherited | _directories(folder)


def _start(folder: Path, limit_s: float) -> None:
    """Start a daemon in ``folder``.

    Raises:
        CostModelError: It does not come up.
    """
    for name in ("pipe", "log"):
        (folder / name).mkdir()
    _control(folder, "-d", limit_s=limit_s)
    deadline = time.monotonic() + limit_s
    while not _control(folder, command="get_default_active_thread_percentage", limit_s=limit_s):
        if time.monotonic() > deadline:
            said = _said(folder).read_text(errors="replace").strip()[:300]
            raise CostModelError(
                f"An MPS daemon must start within {limit_s:g} s, but none did; {_CONTROL} said {said!r}. "
                f"Run `{_CONTROL} -f` by hand to see more, or use green contexts."
            )
        time.sleep(_POLL_S)


def _control(folder: Path, *options: str, limit_s: float, command: str = "") -> bool:
    """Run the control program for the daemon of ``folder``; whether it succeeded.

    What it says goes to a file: the daemon inherits its output, and would hold a pipe open.
    """
    with suppress(OSError, subprocess.SubprocessError), _said(folder).open("ab") as said:
        subprocess.run(  # noqa: S603 (options and commands are ours)
            [_CONTROL, *options],
            env=_daemon_environment(folder),
            input=f"{command}\n".encode(),
            stdout=said,
            stderr=said,
            timeout=limit_s,
            check=True,
        )
        return True
    return False


def _said(folder: Path) -> Path:
    """The file that holds what the control program said."""
    return folder / "log" / "said.txt"


def _stop(folder: Path, limit_s: float) -> None:
    """End the daemon of ``folder`` and its servers: on request, or by force.

    Raises:
        CostModelError: They do not end.
    """
    _control(folder, command="quit", limit_s=limit_s)
    if _ended(folder, limit_s):
        return
    for pid in _processes(folder):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if not _ended(folder, limit_s):
        raise CostModelError(
            f"An MPS daemon must end when it is killed, but processes {_processes(folder)} still run. "
            "End them by hand."
        )


def _ended(folder: Path, limit_s: float) -> bool:
    """Whether the daemon and its servers end within the limit."""
    deadline = time.monotonic() + limit_s
    while _processes(folder):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _processes(folder: Path) -> list[int]:
    """The daemon of ``folder`` and its servers, by name and environment: a pid alone could be another's."""
    ours = f"{_PIPE}={folder / 'pipe'}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile, or is another user's
            named = (process / "comm").read_text().startswith(_NAME)
            if named and ours in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found
