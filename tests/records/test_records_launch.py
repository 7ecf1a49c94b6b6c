"""What is said of a launch is written as it always was, and what only data decide where it is said."""

import msgspec
import pytest

from costmodel.records._candidate import DATA_FACTS, KernelLaunch

pytestmark = pytest.mark.white_box

AS_EVER = (
    b'{"blocks":2,"threads_per_block":32,"vthreads":1,"shared_bytes":0,"local_bytes":0,"global_load_bytes":0,'
    b'"global_store_bytes":0,"shared_load_bytes":0,"shared_store_bytes":0,"flops":0,"tensor_flops":0,'
    b'"vector_bytes":0,"unroll_steps":0'
)


def test_a_launch_that_says_nothing_of_data_has_the_bytes_that_it_always_had() -> None:
    launch = KernelLaunch(2, 32)
    assert msgspec.json.encode(launch) == AS_EVER + b"}"
    assert msgspec.json.decode(AS_EVER + b"}", type=KernelLaunch) == launch
    assert [getattr(launch, name) for name in DATA_FACTS] == [0] * 5


def test_what_it_says_of_data_is_written_and_read() -> None:
    launch = KernelLaunch(2, 32, device_bytes=400, atomics=7)
    assert msgspec.json.encode(launch) == AS_EVER + b',"device_bytes":400,"atomics":7}'
    assert msgspec.json.decode(msgspec.json.encode(launch), type=KernelLaunch) == launch
    told = {name: i + 1 for i, name in enumerate(KernelLaunch.__struct_fields__)}
    assert msgspec.to_builtins(KernelLaunch(**told)) == told


def test_a_launch_does_not_change_and_says_nothing_else() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `warps`"):
        msgspec.json.decode(AS_EVER + b',"warps":1}', type=KernelLaunch)
    with pytest.raises(AttributeError, match="immutable"):
        KernelLaunch(2, 32).blocks = 3  # type: ignore[misc]
