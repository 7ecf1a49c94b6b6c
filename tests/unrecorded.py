"""A runner that serves records as a device would."""

from costmodel.collector import ReplayRunner


class Unrecorded(ReplayRunner):
    """A device, as far as a search can tell: nobody knows its records before they are measured."""

    def known_latencies(self, workload, *, sources=None):
        return None
