"""Streams on one GPU, whole or partitioned by CUDA green contexts.

Source: CUDA driver API, "Green Contexts". TVM sets the device's primary context current before each launch,
so a partition is entered through a stream of the green context, never by making the context current.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any


class GreenContexts:
    """Streams that are confined to part of the device's SMs; each part is made once and kept."""

    def __init__(self) -> None:
        """Open the first visible device."""
        from cuda.bindings import driver  # needs an NVIDIA driver

        self.driver = driver
        self.call(driver.cuInit(0))
        self._device = self.call(driver.cuDeviceGet(0))
        self._primary = self.call(driver.cuDevicePrimaryCtxRetain(self._device))
        self.make_current()
        self._all_sms = self.call(
            driver.cuDeviceGetDevResource(self._device, driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM)
        )
        self._streams: dict[tuple[int, int], tuple[list[int], int]] = {}
        self._units: tuple[list[Any], int] | None = None
        self._lanes: dict[range, int] = {}
        self._contexts: list[Any] = []

    @property
    def total_sms(self) -> int:
        """SMs of the whole device."""
        return int(self._all_sms.sm.smCount)

    def streams(self, sms: int, partitions: int = 1) -> tuple[list[int], int]:
        """A stream on each of some disjoint partitions; none is the default stream, which cannot be captured.

        Args:
            sms: SMs of each partition, at least.
            partitions: How many partitions.

        Returns:
            The streams' handles, and the SMs that the driver granted to each, which it rounds up.

        Raises:
            RuntimeError: The driver refuses, or the device has too few SMs.
        """
        key = sms, partitions
        if key not in self._streams:
            self._streams[key] = self._whole() if key == (self.total_sms, 1) else self._split(sms, partitions)
        return self._streams[key]

    def rest(self, sms: int) -> tuple[int, int]:
        """A stream on the SMs that a first partition of ``sms`` leaves, in whatever process that is.

        A service that runs there meets no kernel on its SMs that another process measures on the partition.

        Args:
            sms: SMs that are left to others, at least.

        Returns:
            The stream's handle, and the SMs that it has.

        Raises:
            RuntimeError: The driver refuses, or nothing is left.
        """
        _, _, left = self._split_up(sms, 1)
        return self._stream([left]), int(left.sm.smCount)

    def disjoint(self, sizes: Sequence[int]) -> list[tuple[int, int]]:
        """A stream on each of some disjoint partitions that need not be equal.

        They are lanes, one behind the other: what a split leaves cannot be split again.

        Args:
            sizes: SMs of each partition, at least.

        Returns:
            For each, its stream's handle and the SMs that it has.

        Raises:
            RuntimeError: The driver refuses, or the device has too few SMs.
        """
        _, unit = self._split_into_units()
        ends = list(accumulate(-(-sms // unit) * unit for sms in sizes))
        lanes = [range(start, end) for start, end in pairwise([0, *ends])]
        return [(self.lane(each), len(each)) for each in lanes]

    def lane(self, sms: range) -> int:
        """A stream on certain SMs: lanes that do not overlap are disjoint, whichever processes make them.

        Args:
            sms: Both ends are multiples of what the driver splits a device into.

        Raises:
            RuntimeError: The driver refuses, or splits the device otherwise.
        """
        if sms not in self._lanes:
            units, size = self._split_into_units()
            if sms.start % size or sms.stop % size or sms.stop > size * len(units):
                raise RuntimeError(
                    f"a lane must be of whole units of {size} SMs, up to {size * len(units)}, but got "
                    f"{sms.start} to {sms.stop}"
                )
            self._lanes[sms] = self._stream(units[sms.start // size : sms.stop // size])
        return self._lanes[sms]

    def _split_into_units(self) -> tuple[list[Any], int]:
        """The device in parts as small as the driver makes them, and the SMs of each.

        Wherever on the chip they are: of SMs that can be scheduled together, an H200 of 132 SMs gave 15 parts
        of 8, too few for four lanes of 32. A kernel with large thread block clusters may not start there.
        """
        if self._units is None:
            anywhere = self.driver.CUdevSmResourceSplitByCount_flags
            flag = int(anywhere.CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING)
            first, _, _ = self._split_up(1, 1, flag)
            size = int(first[0].sm.smCount)
            units, made, _ = self._split_up(size, self.total_sms // size, flag)
            self._units = units[:made], size
        return self._units

    def _whole(self) -> tuple[list[int], int]:
        flags = self.driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        return [int(self.call(self.driver.cuStreamCreate(flags)))], self.total_sms

    def _split(self, sms: int, partitions: int) -> tuple[list[int], int]:
        groups, made, _ = self._split_up(sms, partitions)
        if made < partitions:
            raise RuntimeError(f"the driver made {made} of {partitions} partitions of {sms} SMs")
        return [self._stream([group]) for group in groups[:partitions]], int(groups[0].sm.smCount)

    def _split_up(self, sms: int, partitions: int, flags: int = 0) -> tuple[list[Any], int, Any]:
        """Partitions, how many were made, and what they leave."""
        split = self.driver.cuDevSmResourceSplitByCount(partitions, self._all_sms, flags, sms)
        groups, made, left = self.call(split)
        return groups, made, left

    def _stream(self, groups: list[Any]) -> int:
        """A stream on these parts of one split."""
        driver = self.driver
        description = self.call(driver.cuDevResourceGenerateDesc(groups, len(groups)))
        flags = driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM
        context = self.call(driver.cuGreenCtxCreate(description, self._device, flags))
        self._contexts.append(context)  # a destroyed context would take its stream with it
        non_blocking = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        return int(self.call(driver.cuGreenCtxStreamCreate(context, non_blocking, 0)))

    def make_current(self) -> None:
        """Make the primary context current in this thread."""
        self.call(self.driver.cuCtxSetCurrent(self._primary))

    def synchronize(self) -> None:
        """Wait for every stream of the primary context and of all partitions.

        TVM copies on the default stream, which does not wait for a partition's non-blocking stream.
        """
        self.call(self.driver.cuCtxSynchronize())

    def call(self, result: Any) -> Any:
        """Value of a driver call that succeeded.

        Raises:
            RuntimeError: It did not.
        """
        error, *values = result
        if error != self.driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"CUDA driver: {error.name}")
        return values[0] if len(values) == 1 else tuple(values)
