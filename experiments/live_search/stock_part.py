"""Stock's timing on a part of the device; runs in the process of TVM's ``LocalRunner``."""

from functools import cache
from typing import Any

from costmodel.collector import GreenContexts

_kept: list[GreenContexts] = []  # a destroyed context would take its stream with it


def evaluate(sms: int, module: Any, device: Any, config: Any, arguments: Any) -> Any:
    """As stock does it, on a green context's stream, or with so many threads."""
    import tvm
    from tvm.s_tir.meta_schedule.runner.utils import run_evaluator_common

    if device.type == "cpu":
        tvm.get_global_func("runtime.config_threadpool")(1, sms)
    else:
        device.set_raw_stream(_stream(sms))
    return run_evaluator_common(module, device, config, arguments)


@cache
def _stream(sms: int) -> int:
    contexts = GreenContexts()
    _kept.append(contexts)
    (stream,), _ = contexts.streams(sms)
    return stream
