"""Files as profilers write them, of the same two products and a copy, which a thread launches and waits for.

The schemas are those of their documentation: nsys 2024, rocprofv3 of ROCm 6 and 7, RPD, and XLA's profiler.
"""

import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

# Name, launched at, runs from, to, stream: nanoseconds after the start.
KERNELS = [("gemm_a", 1_000, 10_000, 60_000, 7), ("gemm_b", 4_000, 60_500, 90_500, 7)]
COPY = ("copy", 8_000, 91_000, 99_000, 7)
WAITED = (12_000, 101_000)
ORIGIN = 1_147_738_380_281_408
UUID = "00006409_00d1_70d1_a5cb_b5ab88214544"


def write_tables(path: Path, tables: dict[str, list[dict[str, Any]]]) -> Path:
    """Write a database whose tables have the columns of their first rows."""
    connection = sqlite3.connect(path)
    for name, rows in tables.items():
        columns = ", ".join(f'"{column}"' for column in rows[0])
        connection.execute(f'CREATE TABLE "{name}" ({columns})')
        marks = ", ".join("?" for _ in rows[0])
        connection.executemany(
            f'INSERT INTO "{name}" VALUES ({marks})', [tuple(row.values()) for row in rows]
        )
    connection.commit()
    connection.close()
    return path


def write_nsys(path: Path) -> Path:
    """What ``nsys export --type sqlite`` writes."""
    process, names = 77 << 24, ["gemm_a", "gemm_b", "cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020"]
    names += ["cudaStreamSynchronize_v3020", "step"]
    string = {name: number for number, name in enumerate(names, 100)}
    on_device = {"deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": process}
    launch = {"gridX": 264, "gridY": 1, "gridZ": 1, "blockX": 128, "blockY": 1, "blockZ": 1}
    launch |= {"registersPerThread": 32, "staticSharedMemory": 0, "dynamicSharedMemory": 0}

    def call(name: str, start: int, end: int, correlation: int) -> dict[str, Any]:
        thread = {"globalTid": process | 5, "correlationId": correlation, "nameId": string[name]}
        return {"start": ORIGIN + start, "end": ORIGIN + end, "eventClass": 0, **thread, "returnValue": 0}

    kernels = [
        {"start": ORIGIN + start, "end": ORIGIN + end, **on_device, "correlationId": i}
        | {"demangledName": string[name], "shortName": string[name], **launch}
        for i, (name, _, start, end, _) in enumerate(KERNELS, 1)
    ]
    _, launched, start, end, _ = COPY
    copies = [{"start": ORIGIN + start, "end": ORIGIN + end, **on_device, "correlationId": 3, "copyKind": 2}]
    calls = [call("cudaLaunchKernel_v7000", at, at + 2_000, i) for i, (_, at, *_) in enumerate(KERNELS, 1)]
    calls.append(call("cudaMemcpyAsync_v3020", launched, launched + 2_000, 3))
    calls.append(call("cudaStreamSynchronize_v3020", *WAITED, 4))
    waits = [{"start": ORIGIN + WAITED[0], "end": ORIGIN + WAITED[1], **on_device, "correlationId": 4}]
    waits[0] |= {"syncType": 3, "eventId": None}
    step = {"start": ORIGIN, "end": ORIGIN + 102_000, "globalTid": process | 5, "eventType": 59}
    tables = {
        "StringIds": [{"id": number, "value": name} for name, number in string.items()],
        "TARGET_INFO_GPU": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "smCount": 132, "threadsPerWarp": 32}],
        "CUPTI_ACTIVITY_KIND_KERNEL": kernels,
        "CUPTI_ACTIVITY_KIND_MEMCPY": copies,
        "CUPTI_ACTIVITY_KIND_RUNTIME": calls,
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": waits,
        "NVTX_EVENTS": [{**step, "text": None, "textId": string["step"]}],
    }
    return write_tables(path, tables)


def write_rpd(path: Path) -> Path:
    """What ``rpd_tracer`` writes."""
    names = ["gemm_a", "gemm_b", "hipLaunchKernel", "hipMemcpyAsync", "hipStreamSynchronize", "UserMarker"]
    names += ["KernelExecution", "Memcpy", "Barrier", "hip", "roctx", "rpd_tracer", ""]
    string = {name: number for number, name in enumerate(names, 1)}

    def call(number: int, name: str, start: int, end: int, domain: str = "hip") -> dict[str, Any]:
        times = {"start": ORIGIN + start, "end": ORIGIN + end}
        of = {
            "apiName_id": string[name],
            "domain_id": string[domain],
            "category_id": string[""],
            "args_id": 1,
        }
        return {"id": (9 << 32) + number, "pid": 77, "tid": 5, **times, **of}

    def operation(number: int, kind: str, name: str, start: int, end: int) -> dict[str, Any]:
        on = {"id": number, "gpuId": 2, "queueId": 7, "start": ORIGIN + start, "end": ORIGIN + end}
        return {**on, "description_id": string[name], "opType_id": string[kind]}

    calls = [call(i, "hipLaunchKernel", at, at + 2_000) for i, (_, at, *_) in enumerate(KERNELS, 1)]
    calls.append(call(3, "hipMemcpyAsync", COPY[1], COPY[1] + 2_000))
    calls.append(call(4, "hipStreamSynchronize", *WAITED))
    calls.append(call(5, "UserMarker", 0, 102_000, "roctx"))
    calls.append(call(6, "hipLaunchKernel", 200_000, 900_000, "rpd_tracer"))
    operations = [
        operation(i, "KernelExecution", name, start, end)
        for i, (name, _, start, end, _) in enumerate(KERNELS, 1)
    ]
    operations.append(operation(3, "Memcpy", "", COPY[2], COPY[3]))
    operations.append(operation(4, "Barrier", "", 99_000, 300_000))
    tables = {
        "rocpd_string": [{"id": number, "string": name} for name, number in string.items()],
        "rocpd_ustring": [{"id": 1, "string": "step"}],
        "rocpd_api": calls,
        "rocpd_op": operations,
        "rocpd_api_ops": [{"api_id": (9 << 32) + i, "op_id": i} for i in (1, 2, 3)],
    }
    return write_tables(path, tables)


def write_rocpd(path: Path) -> Path:
    """What ``rocprofv3 --output-format rocpd`` writes: an identity stands behind names of tables."""
    names = [
        "hipLaunchKernel",
        "hipMemcpyAsync",
        "hipStreamSynchronize",
        "step",
        "MEMORY_COPY_DEVICE_TO_HOST",
    ]
    names += ["HIP_RUNTIME_API_EXT", "MARKER_CORE_RANGE_API", "HSA_CORE_API", "KERNEL_DISPATCH"]
    string = {name: number for number, name in enumerate(names, 1)}
    events, regions = list[dict[str, Any]](), []

    def event(category: str, stack: int) -> int:
        events.append({"id": len(events) + 1, "category_id": string[category], "stack_id": stack})
        return len(events)

    def region(name: str, start: int, end: int, category: str, stack: int) -> None:
        times = {"start": ORIGIN + start, "end": ORIGIN + end, "name_id": string[name]}
        regions.append(
            {"id": len(regions) + 1, "pid": 77, "tid": 5, **times, "event_id": event(category, stack)}
        )

    for i, (_, at, *_) in enumerate(KERNELS, 1):
        region("hipLaunchKernel", at, at + 2_000, "HIP_RUNTIME_API_EXT", i)
    region("hipMemcpyAsync", COPY[1], COPY[1] + 2_000, "HIP_RUNTIME_API_EXT", 3)
    region("hipStreamSynchronize", *WAITED, "HIP_RUNTIME_API_EXT", 4)
    region("step", 0, 102_000, "MARKER_CORE_RANGE_API", 5)
    region("hipLaunchKernel", 200_000, 900_000, "HSA_CORE_API", 6)
    sizes = {f"workgroup_size_{axis}": 256 if axis == "x" else 1 for axis in "xyz"}
    sizes |= {f"grid_size_{axis}": 256 * 304 if axis == "x" else 1 for axis in "xyz"}
    kernels = [
        {"pid": 77, "agent_id": 2, "queue_id": 1, "stream_id": 7, "kernel_id": i, **sizes}
        | {"start": ORIGIN + start, "end": ORIGIN + end, "event_id": event("KERNEL_DISPATCH", i)}
        for i, (_, _, start, end, _) in enumerate(KERNELS, 1)
    ]
    copy = {"pid": 77, "dst_agent_id": 2, "queue_id": 1, "stream_id": 7, "name_id": string[names[4]]}
    copy |= {"start": ORIGIN + COPY[2], "end": ORIGIN + COPY[3], "event_id": event("KERNEL_DISPATCH", 3)}
    symbols = [{"id": i, "display_name": name} for i, (name, *_) in enumerate(KERNELS, 1)]
    tables = {
        "rocpd_string": [{"id": number, "string": name} for name, number in string.items()],
        "rocpd_info_kernel_symbol": symbols,
        "rocpd_info_agent": [
            {"id": 1, "product_name": "EPYC", "type": "CPU"},
            {"id": 2, "product_name": "MI300X", "type": "GPU"},
        ],
        "rocpd_event": events,
        "rocpd_region": regions,
        "rocpd_kernel_dispatch": kernels,
        "rocpd_memory_copy": [copy],
    }
    return write_tables(path, {f"{name}_{UUID}": rows for name, rows in tables.items()})


def write_xla(path: Path) -> Path:
    """What ``jax.profiler.trace`` writes beside its protocol buffers."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}},
        {"ph": "M", "pid": 1, "tid": 7, "name": "thread_name", "args": {"name": "Stream #7(Compute)"}},
        {"ph": "M", "pid": 1, "tid": 90, "name": "thread_name", "args": {"name": "XLA Ops"}},
        {"ph": "M", "pid": 701, "name": "process_name", "args": {"name": "/host:CPU"}},
        {"ph": "M", "pid": 701, "tid": 5, "name": "thread_name", "args": {"name": "python"}},
    ]

    def add(name: str, start: int, end: int, *, pid: int = 701, tid: int = 5, **args: Any) -> None:
        event = {"ph": "X", "pid": pid, "tid": tid, "ts": start / 1e3, "dur": (end - start) / 1e3}
        events.append({**event, "name": name, "args": args})

    add("step", 0, 102_000, step_num="0")
    add("$profiler.py:91 trace", 0, 500_000)
    for i, (name, at, start, end, stream) in enumerate(KERNELS, 1):
        add("cuLaunchKernel", at, at + 2_000, correlation_id=str(i))
        details = "regs:32 static_shared:0 dynamic_shared:0 grid:264,1,1 block:128,1,1 occ_pct:50"
        add(name, start, end, pid=1, tid=stream, correlation_id=str(i), kernel_details=details)
        add("fusion", start, end, pid=1, tid=90, hlo_op="fusion")
    add("cuMemcpyDtoHAsync", COPY[1], COPY[1] + 2_000, correlation_id="3")
    add("MemcpyD2H", COPY[2], COPY[3], pid=1, tid=7, correlation_id="3")
    add("PjRtBuffer::Await", *WAITED)
    text = json.dumps({"displayTimeUnit": "ns", "metadata": {}, "traceEvents": [*events, {}]})
    path.write_bytes(gzip.compress(text.encode()))
    return path


def write_rocprofv3(path: Path) -> Path:
    """What ``rocprofv3 --kernel-trace --output-format csv`` writes."""
    head = '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name",'
    head += '"Correlation_Id","Start_Timestamp","End_Timestamp","LDS_Block_Size","Workgroup_Size_X",'
    head += '"Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"\n'
    rows = [
        f'"KERNEL_DISPATCH","Agent 2",1,{stream},70,{i},{i},"{name}",'
        f"{i},{ORIGIN + start},{ORIGIN + end},0,256,1,1,77824,1,1\n"
        for i, (name, _, start, end, stream) in enumerate(KERNELS, 1)
    ]
    path.write_text(head + "".join(rows))
    return path


def write_rocprof(path: Path) -> Path:
    """What ``rocprof --stats`` of ROCm 5 writes as results.csv."""
    head = '"Index","KernelName","gpu-id","queue-id","queue-index","pid","tid","grd","wgr","lds","scr",'
    head += '"arch_vgpr","accum_vgpr","sgpr","wave_size","sig","obj",'
    head += '"DispatchNs","BeginNs","EndNs","DurationNs"\n'
    rows = [
        f'{i},"{name}",2,7,{i},77,5,77824,256,0,0,32,0,16,64,0x0,0x0,'
        f"{ORIGIN},{ORIGIN + start},{ORIGIN + end},{end - start}\n"
        for i, (name, _, start, end, _) in enumerate(KERNELS)
    ]
    path.write_text(head + "".join(rows))
    return path
