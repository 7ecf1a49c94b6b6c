"""What the texts of the options of ``costmodel tune`` mean."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from costmodel.errors import CostModelError

if TYPE_CHECKING:
    from costmodel.shadow._service_watch import ServiceWatch
    from costmodel.tuning._places import Place


def share_of(option: str, text: str | None) -> float | None:
    """A share such as ``1%`` or ``0.01``; None for None.

    Raises:
        CostModelError: It is none, or not between 0 and 1.
    """
    if text is None:
        return None
    number, percent, rest = text.partition("%")
    with suppress(ValueError):
        share = float(number) / (100.0 if percent else 1.0)
        if not rest and 0.0 < share < 1.0:
            return share
    raise CostModelError(f"{option} must be a share above 0 and below 1, such as 1%, but got {text!r}.")


def numbers_of(option: str, text: str | None) -> tuple[float, ...]:
    """Positive numbers such as ``16,32,132``; none for None.

    Raises:
        CostModelError: A part is no positive number.
    """
    if text is None:
        return ()
    with suppress(ValueError):
        numbers = tuple(float(part) for part in text.split(","))
        if all(0.0 < number < float("inf") for number in numbers):
            return numbers
    raise CostModelError(f"{option} must be positive numbers such as 16,32,132, but got {text!r}.")


def budgets_of(text: str | None) -> tuple[int, ...]:
    """SM budgets, in the order given.

    Raises:
        CostModelError: One is no positive whole number, or stands twice.
    """
    budgets = tuple(int(number) for number in numbers_of("--sms", text))
    if budgets != numbers_of("--sms", text) or len(set(budgets)) < len(budgets):
        raise CostModelError(f"--sms must be distinct whole numbers such as 16,32,132, but got {text!r}.")
    return budgets


def names_of(text: str | None) -> tuple[str, ...] | None:
    """Names such as ``cuda,library``; None for None."""
    return None if text is None else tuple(part.strip() for part in text.split(","))


def service_watch_of(beside: Path | None, may_lose: str | None) -> "ServiceWatch | None":
    """The watch of a service by the file of its latencies and what its p99 may rise by; None for no file.

    Raises:
        CostModelError: The share is none, or there is no service that it is of.
    """
    share = share_of("--may-lose", may_lose)
    if beside is None:
        if share is not None:
            raise CostModelError("--may-lose must be what a service may lose: name its file with --beside.")
        return None
    from costmodel.shadow._service_watch import ServiceWatch

    return ServiceWatch(beside) if share is None else ServiceWatch(beside, may_lose=share)


def place_of(runner: str, replay: str | None, device: str | None, watch: "ServiceWatch | None") -> "Place":
    """The place to measure that the options name.

    Raises:
        CostModelError: A runner is named beside records to replay.
    """
    from costmodel.tuning._places import Beside, Replay, find_place

    if runner == "replay":
        place: Place = Replay(replay, device)
    elif replay is not None or device is not None:
        raise CostModelError(
            f"Records to replay, and the device that they are of, must be named without a runner, but got "
            f"{runner}. Leave one of them out."
        )
    else:
        place = find_place(runner)
    return Beside(place, watch) if watch else place
