"""Result of the build of a kernel."""

from pathlib import Path

import msgspec

from costmodel.records._kernel_resources import KernelResources
from costmodel.records._measurement import Outcome


class Built(msgspec.Struct, frozen=True):
    """Result of a build.

    Attributes:
        outcome: How the build ended.
        library: Path of the artifact; None if the build failed.
        kernel_hash: Content address of the generated source; empty if there is none.
        resources: Resources that the compiler gave each CUDA kernel.
        error: Why the build failed.
        sha256: Hash of the artifact as its builder wrote it; empty if it is not checked.
    """

    outcome: Outcome
    library: Path | None = None
    kernel_hash: str = ""
    resources: tuple[KernelResources, ...] = ()
    error: str = ""
    sha256: str = ""
