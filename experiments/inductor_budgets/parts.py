"""Parts of the first GPU, each a stream that launches there."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch


class GpuParts:
    """Parts of the first GPU.

    Args:
        sms: SMs of each; all of them for more than there are.

    Attributes:
        granted: SMs that the driver gave each.
    """

    def __init__(self, sms: Sequence[int]) -> None:
        from costmodel.collector.device._green_context import GreenContexts

        torch.cuda.init()
        self._contexts = GreenContexts()
        made = [self._contexts.streams(min(each, self._contexts.total_sms)) for each in sms]
        self._streams = {granted: torch.cuda.ExternalStream(handles[0]) for handles, granted in made}
        self.granted = tuple(self._streams)

    def enter(self, sms: int) -> AbstractContextManager[Any]:
        """Let what is launched run on a part."""
        return torch.cuda.stream(self._streams[sms])

    def wait(self) -> None:
        """Wait for what was launched; raise if nothing can run any more."""
        torch.cuda.synchronize()
