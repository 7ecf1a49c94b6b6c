"""A valid file of each kind that the package reads, and the commands that read it."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import msgspec
from damaged_files import whole_files
from fake_foreign import COLUMN_MAP, PLATFORM_TOML, fake_records, write_database
from fuzz.harness import run
from planner.kineto_traces import Machine, two_streams
from small_networks import export_small

from costmodel.collector.campaign._config import CampaignConfig
from costmodel.collector.campaign._folder import CampaignFolder
from costmodel.dataset._build import build_dataset
from costmodel.dataset.publish._card import CardHeader
from costmodel.dataset.splits._make import write_final_shapes
from costmodel.dataset.table._read import load_dataset
from costmodel.records._store import RecordStore, read_records
from costmodel.testing._landscapes import gpu_landscape
from costmodel.tuning._training import train

ROOT = Path(__file__).parents[2]
_OTHER_TOOLS = ROOT / "tests" / "dataset" / "other_tools"
_WORKLOADS = ("matmul-m128-n768-k768", "matmul-m512-n512-k512", "matmul-m64-n2304-k768")
_SEARCH = ("tune", _WORKLOADS[0], "--replay", "built", "--trials", "4")
_NSYS = """\
Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Bytes (MB),Device,Strm,Name
1000000,52000,11,132,2,1,128,1,1,,NVIDIA H100 80GB HBM3 (0),7,ampere_sgemm_128x64_tn
1060000,8000,12,,,,,,,0.524,NVIDIA H100 80GB HBM3 (0),7,[CUDA memcpy Device-to-Host]
1070000,10000,13,264,1,1,256,1,1,,NVIDIA H100 80GB HBM3 (0),13,"void vectorized<4, at::add<float>>(int)"
"""
_LEARNERS = ("ridge", "random-forest", "xgboost")
_DEVICE = """[device]
name = "mine"
kind = "cuda"
architecture = "sm_90"
sms = 132
clock_mhz = 1500
"""
_DEVICES = """[[devices]]
name = "mine"
architecture = "sm_90"
sms = 132
clock_mhz = 1500
source = "a desk"
"""
_JOB = """trials = 4
rule = "gradient"
sms = [8, 132]
workloads = ["matmul-m128-n768-k768", "matmul-m512-n512-k512"]
[settings]
replay = "built"
seed = 3
"""


_MERGE = ("merge", "built", "--out", "again", "--card", "card.toml")
_EXPORT = ("--format", "t4", "--out", "exported")


_SERVED = """{"model_type": "deepseek_v3", "hidden_size": 7168, "moe_intermediate_size": 256,
"n_routed_experts": 256, "num_experts_per_tok": 8, "num_attention_heads": 128, "kv_lora_rank": 512,
"q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}"""
_TABLE = "tables/E=8,N=14336,device_name=NVIDIA_H200.json"
_ROW = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 128, "GROUP_SIZE_M": 1, "num_warps": 4}


@dataclass(frozen=True)
class Target:
    """A file, and a command that reads it.

    Attributes:
        file: Its path in the folder of the corpus, which the command runs in.
        arguments: Those of ``costmodel``, or one of ``harness.CALLS`` and its own.
        is_refused: Whether the file is refused as it is: its reader is attacked all the same.
    """

    file: str
    arguments: tuple[str, ...]
    is_refused: bool = False


_PROGRAMS = (
    *(Target(f"{name}.json", ("read_program", f"{name}.json")) for name in ("matmul", "sums")),
    Target("network.json", ("read_calls", "network.json")),
    Target("tuned.jsonl", ("dataset", "validate", "tuned.jsonl")),
    Target("tuned.jsonl", ("read_tvm_database", "tuned.jsonl")),
    Target("tuned.jsonl", ("read_tvm_database_elsewhere", "tuned.jsonl")),
    Target("tvm.costmodel", ("read_tvm_model", "tvm.costmodel")),
)


def write_corpus(folder: Path) -> tuple[Target, ...]:
    """Write a valid file of each kind, with what it needs beside it.

    Raises:
        AssertionError: A command refuses its valid file.
    """
    _write_measurements(folder)
    _write_foreign(folder)
    _write_settings(folder)
    _write_graphs(folder)
    _write_stores(folder)
    targets = [*_targets(folder), *_store_targets()]
    if find_spec("tvm"):
        _write_programs(folder)
        targets += _PROGRAMS
    if find_spec("triton"):
        targets.append(Target("triton.jsonl", ("read_triton_store", "triton.jsonl")))
    return tuple(targets)


def _write_measurements(folder: Path) -> None:
    data = gpu_landscape(workloads=_WORKLOADS, configs_per_workload=12, sms=(8, 132))
    with RecordStore(folder / "records.jsonl") as store:
        store.append(data.to_measurements())
    header = CardHeader(*["words"] * len(CardHeader.__struct_fields__))
    build_dataset([folder / "records.jsonl"], folder / "built", header=header)
    build_dataset([folder / "records.jsonl"], folder / "parts", header=header, partition_by="workload")
    for learner in _LEARNERS:
        train(data, learner, hold_out=_WORKLOADS[:1]).save(folder / f"{learner}.costmodel")
    new = [each for each in data.candidates if each.workload.name == _WORKLOADS[0]]
    (folder / "new.jsonl").write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in new))
    _must_run(folder, *_SEARCH, "--sms", "8,132", "--portfolio", "2", "--dispatch", "dispatch.json")
    _must_run(folder, "dataset", "split", "built", "--strategy", "leave-one-workload-out", "--name", "mine")


def _write_foreign(folder: Path) -> None:
    for name, content in whole_files().items():
        (folder / name).write_bytes(content)
    (folder / "map.toml").write_text(COLUMN_MAP)
    (folder / "platform.toml").write_text(PLATFORM_TOML)
    write_database(folder, fake_records())
    for file in sorted(_OTHER_TOOLS.iterdir()):
        shutil.copyfile(file, folder / file.name)


def _write_settings(folder: Path) -> None:
    configs = ROOT / "configs"
    shutil.copyfile(configs / "cpu-quick.toml", folder / "campaign.toml")
    shutil.copyfile(configs / "evaluate-few-shot.toml", folder / "evaluation.toml")
    shutil.copyfile(configs / "cards" / "sm-budgets.toml", folder / "card.toml")
    shutil.copyfile(ROOT / "costmodel" / "service" / "times" / "cpu.json", folder / "times.json")
    shutil.copytree(ROOT / "costmodel" / "kernels" / "cuda" / "families" / "reduction", folder / "reduction")
    (folder / "own.toml").write_text(_DEVICE)
    (folder / "devices.toml").write_text(_DEVICES)
    (folder / "job.toml").write_text(_JOB)
    (folder / "latencies.log").write_text("0.5 first\n0.25\n")
    (folder / "served.json").write_text(_SERVED)
    (folder / "tables").mkdir()
    (folder / _TABLE).write_text(json.dumps({"1": _ROW, "64": _ROW | {"BLOCK_SIZE_M": 64}}))
    (folder / "experiment").mkdir()
    results = {"tasks": 3, "rows": [{"name": "a", "score": 0.5}, {"name": "b", "score": 0.25}]}
    (folder / "experiment" / "result.json").write_text(json.dumps(results))
    (folder / "experiment" / "config.toml").write_text("seed = 1\n[split]\nname = 'x'\n")


def _write_graphs(folder: Path) -> None:
    events = two_streams(Machine()).events
    (folder / "trace.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    (folder / "nsys.csv").write_text(_NSYS)
    tasks = [{"id": str(i), "duration_s": 1e-5, "after": [str(i - 1)] if i else []} for i in range(6)]
    tasks[2] |= {"sms": 132, "blocks": 264, "block_warps": 8, "workload": _WORKLOADS[0]}
    (folder / "graph.json").write_text(json.dumps({"tasks": tasks}))
    nodes = [
        {"id": i, "cpuLatency": 9.0, "fpgaLatency": 1.0 + i, "supportedOnFpga": True, "size": 10.0}
        for i in range(5)
    ]
    edges = [{"sourceId": i, "destId": i + 1, "cost": 0.5} for i in range(4)]
    problem = {"maxSizePerFPGA": 100.0, "maxFPGAs": 2, "maxCPUs": 1, "nodes": nodes, "edges": edges}
    (folder / "placement.json").write_text(json.dumps(problem))
    split = {"fpgas": [{"nodes": [0, 1, 2]}, {"nodes": [3, 4]}], "cpus": []}
    (folder / "placed.json").write_text(json.dumps(split))


def _write_stores(folder: Path) -> None:
    """Write the stores of jobs, searches, runs, a campaign, and of the drop-in for Triton."""
    asked = ("jobs", "submit", "job.toml", "--sms", "8", "--trials", "2")
    for command in (asked, ("jobs", "work", "--once"), asked):
        _must_run(folder, *command, "--store", "jobs.db")
    for study in ("study.db", "study.log"):
        _must_run(folder, *_SEARCH, "--study", study)
    if find_spec("mlflow"):
        _must_run(folder, "experiments", "log", "experiment", "--tracking-uri", "runs.db")
    shutil.copytree(folder / "built", folder / "reserved", ignore=shutil.ignore_patterns("splits"))
    write_final_shapes(load_dataset(folder / "reserved"))
    campaign = CampaignFolder(folder / "campaign")
    config = CampaignConfig.load(folder / "campaign.toml")
    campaign.claim(config)
    measured = list(read_records(folder / "records.jsonl"))
    one = [each for each in measured if each.candidate.workload.name == _WORKLOADS[0]]
    campaign.write_proposals(config.parsed_workloads[0], 0, [each.candidate for each in one])
    shutil.copyfile(folder / "records.jsonl", campaign.store)
    with RecordStore(folder / "triton.jsonl") as store:
        store.append(one)


def _store_targets() -> Iterator[Target]:
    for told in (("list",), ("show", "1"), ("work", "--once"), ("cancel", "2")):
        yield Target("jobs.db", ("jobs", *told, "--store", "jobs.db"))
    for study in ("study.db", "study.log"):
        yield Target(study, (*_SEARCH, "--study", study))
    if find_spec("mlflow"):
        yield Target("runs.db", ("experiments", "list", "--tracking-uri", "runs.db"))
    yield Target("campaign/campaign.json", ("collect", "status", "campaign"))
    yield Target("campaign/measurements.jsonl", ("collect", "status", "campaign"))
    yield Target("campaign/proposals/matmul-m64-n64-k64.0.json", ("collect", "status", "campaign"))


def _write_programs(folder: Path) -> None:
    """Write programs as TVM does, and a database of the plug-in for TVM."""
    import tvm
    from integrations.tuned_programs import cuda, drawn, matmul, on_h100, result, row_sums
    from tvm.s_tir import meta_schedule as ms

    from costmodel.integrations.tvm._cost_model import CostModel
    from costmodel.integrations.tvm._database import Database

    programs = {"matmul": matmul(), "sums": row_sums(), "network": export_small("decode", "float32")}
    for name, program in programs.items():
        (folder / f"{name}.json").write_text(tvm.ir.save_json(program))
    database = Database(folder / "tuned.jsonl", on_h100(32))
    context, candidates = drawn("row_sums", 4)
    workload = database.commit_workload(context.mod)
    for at, candidate in enumerate(candidates, start=1):
        record = (candidate.sch.trace, workload, [1e-4 * at], cuda(), candidate.args_info)
        database.commit_tuning_record(ms.database.TuningRecord(*record))
    model = CostModel(platform=on_h100(32))
    model.update(context, candidates, [result(1e-4 * at) for at in range(1, 5)])
    model.save(str(folder / "tvm.costmodel"))


def _targets(folder: Path) -> Iterator[Target]:
    yield from (Target(file, ("dataset", "validate", file)) for file in ("records.jsonl", "cache.json"))
    yield Target("built/measurements.parquet", ("dataset", "validate", "built/measurements.parquet"))
    foreign = ("t4.json", "own_t4.json", "own_cache.json", "log.json", "database_tuning_record.json")
    for file in (*foreign, *(each.name for each in sorted(_OTHER_TOOLS.iterdir()))):
        # Best configs alone, as serving frameworks keep them, are refused for want of a latency.
        is_refused = file.startswith("E=")
        yield Target(file, ("dataset", "validate", file, "--platform", "platform.toml"), is_refused)
    table = ("--columns", "map.toml", "--platform", "platform.toml")
    for file, read in (("runs.csv",) * 2, ("runs.parquet",) * 2, ("map.toml", "runs.csv")):
        yield Target(file, ("dataset", "validate", read, *table))
    yield Target("platform.toml", ("dataset", "validate", "t4.json", "--platform", "platform.toml"))
    programs = ("dataset", "validate", "database_tuning_record.json", "--platform", "platform.toml")
    yield Target("database_workload.json", programs)
    for learner in _LEARNERS:
        file = f"{learner}.costmodel"
        yield Target(file, ("model", "info", file))
        yield Target(file, ("model", "predict", file, _WORKLOADS[0], "new.jsonl", "--device", "H200"))
    predicted = ("model", "predict", "ridge.costmodel", _WORKLOADS[0], "new.jsonl")
    yield Target("new.jsonl", (*predicted, "--device", "H200"))
    yield Target("own.toml", (*predicted, "--own", "own.toml"))
    yield Target("devices.toml", ("devices", "list", "--own", "devices.toml"))
    made = ("--device", "H200", "--out", "new-tables")
    yield Target("served.json", ("serve-tables", "--model", "served.json", *made))
    yield Target(_TABLE, ("serve-tables", "check", "tables"))
    yield Target("dispatch.json", ("load_dispatch_table", "dispatch.json"))
    yield Target("built/splits/mine.json", ("read_split", "built", "built/splits/mine.json"))
    yield Target("built/SHA256SUMS", ("dataset", "describe", "built"))
    for read in (("describe", "built"), _MERGE, ("export", "built", *_EXPORT)):
        yield Target("built/measurements.parquet", ("dataset", *read))
    yield Target(
        "built/measurements.parquet", ("train", "built", "--learner", "ridge", "--out", "new.costmodel")
    )
    yield Target("parts/card.json", ("dataset", "append", "parts", "records.jsonl"))
    yield Target(
        "reserved/final_report.json", ("train", "reserved", "--learner", "ridge", "--out", "new.costmodel")
    )
    yield Target("card.toml", ("read_card", "card.toml"))
    yield Target("campaign.toml", ("collect", "plan", "campaign.toml"))
    yield Target("evaluation.toml", ("read_evaluation", "evaluation.toml"))
    yield Target("job.toml", ("jobs", "submit", "job.toml", "--store", "jobs.db"))
    yield Target("times.json", ("capacity", "times.json"))
    yield Target("reduction/reduction.json", ("read_family", "reduction/reduction.json"))
    yield Target("reduction/reduction.json", ("kernels", "list", "reduction"))
    yield Target("latencies.log", ("read_latencies", "latencies.log"))
    yield Target("experiment/result.json", ("describe_folder", "experiment"))
    yield Target("experiment/config.toml", ("describe_folder", "experiment"))
    for what_if in ((), ("--what-if", "half,graphs"), ("--json", "plan.json")):
        yield Target("trace.json", ("plan", "trace.json", *what_if))
        yield Target("graph.json", ("plan", "graph.json", *what_if))
    yield Target("nsys.csv", ("plan", "nsys.csv"))
    known = ("--learn-from", "built", "--model", "ridge.costmodel")
    yield Target("ridge.costmodel", ("plan", "graph.json", "--what-if", "tuned", *known))
    yield Target("placement.json", ("place", "placement.json", "--time-limit", "1"))
    yield Target("placed.json", ("read_placed", "placement.json", "placed.json"))
    yield Target("records.jsonl", ("records", "forget", "records.jsonl", "--outcome", "launch_error"))
    built = ("dataset", "build", "records.jsonl", "--out", "again", "--card", "card.toml")
    yield Target("records.jsonl", built)


def _must_run(folder: Path, *arguments: str) -> None:
    verdict = run(arguments, folder)
    assert not verdict.fault, f"{arguments}: {verdict.fault}\n{verdict.said}"
    assert not verdict.is_refusal, f"{arguments}: {verdict.said}"
