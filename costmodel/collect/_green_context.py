"""SM partitions of one GPU by CUDA green contexts. Runs in the device worker.

Source: CUDA driver API, "Green Contexts". TVM sets the device's primary context current before each launch, so a
partition is entered through a stream of the green context, never by making the context current.
"""

from typing import Any


class GreenContexts:
    """Streams that are confined to part of the device's SMs; each part is made once and kept."""

    def __init__(self) -> None:
        """Open the first visible device."""
        from cuda.bindings import driver  # noqa: PLC0415 (needs an NVIDIA driver)

        self._driver = driver
        self._call(driver.cuInit(0))
        self._device = self._call(driver.cuDeviceGet(0))
        self._all_sms = self._call(
            driver.cuDeviceGetDevResource(self._device, driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM)
        )
        self._streams: dict[int, tuple[int, int]] = {}
        self._contexts: list[Any] = []

    @property
    def total_sms(self) -> int:
        """SMs of the whole device."""
        return int(self._all_sms.sm.smCount)

    def stream(self, sms: int) -> tuple[int, int]:
        """A stream on at least ``sms`` SMs.

        Returns:
            The stream's handle and the number of SMs that the driver granted, which it rounds up.

        Raises:
            RuntimeError: The driver refuses.
        """
        if sms not in self._streams:
            driver = self._driver
            groups, _, _ = self._call(driver.cuDevSmResourceSplitByCount(1, self._all_sms, 0, sms))
            description = self._call(driver.cuDevResourceGenerateDesc([groups[0]], 1))
            flags = driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM
            context = self._call(driver.cuGreenCtxCreate(description, self._device, flags))
            non_blocking = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
            stream = self._call(driver.cuGreenCtxStreamCreate(context, non_blocking, 0))
            self._contexts.append(context)  # a destroyed context would take its stream with it
            self._streams[sms] = (int(stream), int(groups[0].sm.smCount))
        return self._streams[sms]

    def synchronize(self) -> None:
        """Wait for every stream of the primary context and of all partitions.

        TVM copies on the default stream, which does not wait for a partition's non-blocking stream.
        """
        self._call(self._driver.cuCtxSynchronize())

    def _call(self, result: Any) -> Any:
        """Value of a driver call that succeeded."""
        error, *values = result
        if error != self._driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"CUDA driver: {error.name}")
        return values[0] if len(values) == 1 else tuple(values)
