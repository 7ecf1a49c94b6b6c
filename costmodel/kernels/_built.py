"""What the build of a kernel gives."""

from pathlib import Path

import msgspec

from costmodel.records import KernelResources, Outcome


class Built(msgspec.Struct, frozen=True):
    """What a build gave.

    Attributes:
        outcome: How it ended.
        library: The artifact; None if it failed.
        kernel_hash: Content address of the generated source; empty where there is none.
        resources: What the compiler gave each CUDA kernel.
        error: Why it failed.
        sha256: Of the artifact as its builder wrote it; empty where nobody checks it.
    """

    outcome: Outcome
    library: Path | None = None
    kernel_hash: str = ""
    resources: tuple[KernelResources, ...] = ()
    error: str = ""
    sha256: str = ""
