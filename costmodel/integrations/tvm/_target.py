"""What a kernel is made for, as text that can be stored and compared."""

import json
from typing import Any

from costmodel.kernels.metaschedule._database_json import plain_json
from costmodel.records._platform import TargetKind

_KINDS: dict[str, TargetKind] = {"cuda": "cuda", "llvm": "cpu"}


def target_kind(target: Any) -> TargetKind | None:
    """Kind of device of a TVM target; None for one that no runner of ours can measure on."""
    return _KINDS.get(str(target.kind.name))


def target_json(target: Any) -> str:
    """Canonical JSON of a target's fields, from which ``tvm.target.Target`` can be made again."""
    return json.dumps(plain_json(target.export()), sort_keys=True)


def device_part(target: str) -> str:
    """The canonical JSON without the host: kernels of a device are the same whoever launches them."""
    fields = json.loads(target)
    fields.pop("host", None)
    return json.dumps(fields, sort_keys=True)
