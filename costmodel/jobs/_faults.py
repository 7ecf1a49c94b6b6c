"""Which errors are of a worker and of what it is connected to, and say nothing of its task."""

import errno

from sqlalchemy.exc import InterfaceError, OperationalError

from costmodel.engines._base import EngineLostError
from costmodel.errors import DeviceUnavailableError, MissingExtraError

_LACKING = (DeviceUnavailableError, MissingExtraError, EngineLostError, OperationalError, InterfaceError)
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def is_of_worker(error: BaseException | None) -> bool:
    """Whether another worker may do what this one fails at.

    So it is where a device, a package, the engine, the database or room on the disk is missing here. What met
    that may have been told in other words by whoever called it.
    """
    while error is not None:
        if isinstance(error, _LACKING) or (isinstance(error, OSError) and error.errno in _DISK):
            return True
        error = error.__cause__ or error.__context__
    return False
