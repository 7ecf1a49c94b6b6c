"""What PyTorch runs, as a kernel source."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
from numpy.typing import NDArray

from costmodel.errors import InvalidConfigError, MissingExtraError
from costmodel.files import write_whole
from costmodel.kernels._artifact import Built
from costmodel.kernels._base import KernelSource
from costmodel.kernels.library._space import CALL, LibrarySpace, find_library_family, find_owner
from costmodel.reading import exists
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Outcome
from costmodel.records._platform import TargetKind
from costmodel.records._workload import Workload

CALL_NOTE_SUFFIX = ".torch.json"


class CallNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to call.

    Attributes:
        workload: Name of the workload.
        call: Name of the call.
        choices: What it is told.
    """

    workload: str
    call: str
    choices: dict[str, int]


def write_note(candidate: Candidate, folder: Path) -> Path:
    """Note the call of a candidate in ``folder``, unless it is noted there."""
    path = folder / f"{candidate.candidate_id}{CALL_NOTE_SUFFIX}"
    if exists(path):
        return path
    choices = dict(candidate.config.decisions)
    call = choices.pop(CALL)
    note = msgspec.convert({"workload": candidate.workload.name, "call": call, "choices": choices}, CallNote)
    write_whole(path, msgspec.json.encode(note))
    return path


def load_call(path: Path) -> Callable[[Sequence[Any]], Any]:
    """Return the call that a file notes, for tensors on one device. Imports PyTorch.

    From here on float32 means float32 in this process: TensorFloat-32 is switched off.

    Returns:
        A function of the operator's inputs in order and then the output, contiguous ``torch.Tensor`` in the
        workload's layout. It gives the tensor that holds the result: the output, or a new one. It works on
        PyTorch's current stream and raises what PyTorch raises, ``InvalidConfigError`` where cuBLASLt has no
        algorithm of that number, and ``RuntimeError`` with the name of a status where cuBLASLt refuses.
    """
    import torch

    from costmodel.kernels.library._calls import make_call, make_family_call

    note = msgspec.json.decode(path.read_bytes(), type=CallNote)
    # Its newer flags, one an operator, make PyTorch's own exporter fail, which asks for these.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    workload = Workload.parse(note.workload)
    family = find_library_family(workload)
    call = (
        make_family_call(family, workload, note.call)
        if family
        else make_call(workload, note.call, **note.choices)
    )
    return lambda tensors: call(*tensors)


class LibrarySource(KernelSource):
    """What PyTorch runs of an operator: on a GPU mostly kernels of cuBLAS and cuDNN, on a CPU of oneDNN.

    Nothing is compiled, and which kernels a call launches is not known before it runs; what a call of a
    family's workload computes and moves is what the family says. A time of the library can mislead:

    - It is that of the call with all kernels that it needs, such as one for an activation behind a product,
      and of copies into a layout that the library wants, but without the time that Python takes: calls are
      timed as CUDA graphs. A small operator in a script that uses none takes longer.
    - float32 means float32: TensorFloat-32 is off, which PyTorch leaves on for convolutions.
    - The library chooses among its kernels by heuristics, at the first call of a shape, which takes up to
      seconds and does not count. These see the whole GPU also where they run on a part of it; only the call
      ``cublaslt`` can be told otherwise, by its ``sm_target``.
    - ``cudnn_benchmark`` tries cuDNN's kernels at the first call in a process and keeps the fastest: that of
      the largest SM budget that is measured together, for the smaller ones too.
    - Kernels that split a sum use a workspace beside the arguments, cuBLASLt's of up to 32 MiB; it is not in
      any count of bytes.
    - Another version of PyTorch, cuBLAS or cuDNN is another library: compare with the same one.
    """

    name = "library"
    artifact = CALL_NOTE_SUFFIX

    def makes(self, workload: Workload, kind: TargetKind) -> bool:
        """Return all operators, and workloads of families that say what a user of PyTorch would call."""
        return not workload.is_foreign or find_library_family(workload) is not None

    def space(self, workload: Workload, kind: TargetKind) -> LibrarySpace:
        """Return the calls that compute a workload."""
        return LibrarySpace(workload, kind)

    def arguments(self, workload: Workload) -> list[NDArray[Any]]:
        """Return those of the kernels that stand beside a call."""
        return find_owner(workload).arguments(workload)

    def outputs(self, workload: Workload) -> tuple[int, ...]:
        """Return the positions of the arguments that are compared."""
        return find_owner(workload).outputs(workload)

    def reference(self, workload: Workload) -> list[NDArray[Any]] | None:
        """Tell what the kernels beside a call should give too."""
        return find_owner(workload).reference(workload)

    def tolerance(self, workload: Workload) -> float:
        """Return the largest relative error of the outputs that is rounding."""
        return find_owner(workload).tolerance(workload)

    def check_installed(self, kind: TargetKind) -> None:
        """Check for PyTorch.

        Raises:
            MissingExtraError: It is not installed.
        """
        if find_spec("torch") is None:
            raise MissingExtraError(f"Measuring the library on {kind}", "torch")

    def build(self, candidate: Candidate, kind: TargetKind, architecture: str, folder: Path) -> Built:
        """Note what to call: nothing is to be built."""
        try:
            self.space(candidate.workload, kind).candidate(candidate.config)
        except InvalidConfigError as error:
            return Built(Outcome.INVALID_CONFIG, error=str(error))
        return Built(Outcome.OK, write_note(candidate, folder))
