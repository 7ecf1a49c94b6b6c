"""What a build of the library leaves: a note on what to call, which a process with PyTorch takes up."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from costmodel.files import write_whole
from costmodel.kernels.library._family import family_of
from costmodel.kernels.library._space import CALL
from costmodel.records._candidate import Candidate
from costmodel.records._workload import Workload

SUFFIX = ".torch.json"


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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
    """Note the call of a candidate in ``folder``."""
    choices = dict(candidate.config.decisions)
    call = choices.pop(CALL)
    note = msgspec.convert({"workload": candidate.workload.name, "call": call, "choices": choices}, Note)
    path = folder / f"{candidate.candidate_id}{SUFFIX}"
    write_whole(path, msgspec.json.encode(note))
    return path


def load_call(path: Path) -> Callable[[Sequence[Any]], Any]:
    """The call that a file notes, for tensors on one device. Imports PyTorch.

    From here on float32 means float32 in this process: TensorFloat-32 is switched off.

    Returns:
        A function of the operator's inputs in order and then the output, contiguous ``torch.Tensor`` in the
        workload's layout. It gives the tensor that holds the result: the output, or a new one. It works on
        PyTorch's current stream and raises what PyTorch raises, ``InvalidConfigError`` where cuBLASLt has no
        algorithm of that number, and ``RuntimeError`` with the name of a status where cuBLASLt refuses.
    """
    import torch

    from costmodel.kernels.library._calls import call_of_family, make_call

    note = msgspec.json.decode(path.read_bytes(), type=Note)
    # Its newer flags, one an operator, make PyTorch's own exporter fail, which asks for these.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    workload = Workload.parse(note.workload)
    family = family_of(workload)
    call = (
        call_of_family(family, workload, note.call)
        if family
        else make_call(workload, note.call, **note.choices)
    )
    return lambda tensors: call(*tensors)
