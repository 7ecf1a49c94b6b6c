"""Streams on one GPU, whole or partitioned by CUDA green contexts. Runs in the device worker.

Source: CUDA driver API, "Green Contexts". TVM sets the device's primary context current before each launch,
so a partition is entered through a stream of the green context, never by making the context current.
"""

from typing import Any


class GreenContexts:
    """Streams that are confined to part of the device's SMs; each part is made once and kept."""

    def __init__(self) -> None:
        """Open the first visible device."""
        from cuda.bindings import driver  # needs an NVIDIA driver

        self.driver = driver
        self.call(driver.cuInit(0))
        self._device = self.call(driver.cuDeviceGet(0))
        self.call(driver.cuCtxSetCurrent(self.call(driver.cuDevicePrimaryCtxRetain(self._device))))
        self._all_sms = self.call(
            driver.cuDeviceGetDevResource(self._device, driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM)
        )
        self._streams: dict[int, tuple[int, int]] = {}
        self._contexts: list[Any] = []

    @property
    def total_sms(self) -> int:
        """SMs of the whole device."""
        return int(self._all_sms.sm.smCount)

    def stream(self, sms: int) -> tuple[int, int]:
        """A stream on at least ``sms`` SMs; none of them is the default stream, which cannot be captured.

        Returns:
            The stream's handle and the number of SMs that the driver granted, which it rounds up.

        Raises:
            RuntimeError: The driver refuses.
        """
        if sms not in self._streams:
            self._streams[sms] = self._whole() if sms == self.total_sms else self._partition(sms)
        return self._streams[sms]

    def _whole(self) -> tuple[int, int]:
        flags = self.driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        return int(self.call(self.driver.cuStreamCreate(flags))), self.total_sms

    def _partition(self, sms: int) -> tuple[int, int]:
        driver = self.driver
        groups, _, _ = self.call(driver.cuDevSmResourceSplitByCount(1, self._all_sms, 0, sms))
        description = self.call(driver.cuDevResourceGenerateDesc([groups[0]], 1))
        flags = driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM
        context = self.call(driver.cuGreenCtxCreate(description, self._device, flags))
        self._contexts.append(context)  # a destroyed context would take its stream with it
        non_blocking = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        stream = self.call(driver.cuGreenCtxStreamCreate(context, non_blocking, 0))
        return int(stream), int(groups[0].sm.smCount)

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
