"""Which version of NVIDIA's runtime compiler is here."""

FIRST_WITH_HEADERS = (12, 8)  # that precompiles headers


def nvrtc_version() -> tuple[int, int] | None:
    """Return (major, minor) of NVRTC; None where it or its bindings are not installed."""
    try:
        from cuda.bindings import nvrtc

        _, major, minor = nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError):  # the bindings raise RuntimeError for a library that is not found
        return None
    return major, minor


def nvrtc_compiler() -> dict[str, str]:
    """Its version by its name, as ``KernelSource.compilers`` has it; empty where it is not installed."""
    version = nvrtc_version()
    return {"nvrtc": "{}.{}".format(*version)} if version else {}
