"""One job for two GPUs whose measurements were recorded: what each learns of the other."""

import argparse
import multiprocessing
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

import optuna

from costmodel.dataset import load_dataset
from costmodel.files import write_json
from costmodel.service import JobFile, JobStore, work
from costmodel.service._job import TuneSettings

DATASET, DEVICES, SMS = "sampled-sm-budgets", ("NVIDIA H100 80GB HBM3", "NVIDIA H200"), 32
TRIALS, SLICE = 16, 4
LEAST = 40  # kernels that a task must have, so that there is something to search


def main() -> None:
    """Tune the same workloads for both GPUs, apart, one after the other, and at once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--workloads", type=int, default=12, help="most workloads, evenly among their names")
    args = parser.parse_args()
    best = best_known()
    both = sorted(name for name in best if best[name].keys() == set(DEVICES))
    workloads = both[:: -(-len(both) // args.workloads)]
    ways = {"apart": apart, "H100 first": in_turn, "H200 first": in_turn_from_the_last, "at once": at_once}
    found = {name: scores(way(workloads), best) for name, way in ways.items()}
    write_json(args.json, {"workloads": workloads, "sms": SMS, "trials": TRIALS, "ways": found})
    print(table(found))


def best_known() -> dict[str, dict[str, float]]:
    """Seconds of the fastest kernel of each workload, by GPU, where so many were measured."""
    times: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for each in load_dataset(DATASET).to_measurements():
        if each.outcome == "ok" and each.platform.sms_granted == SMS:
            times[each.candidate.workload.name][each.platform.device.name].append(each.latency_s)
    return {
        workload: {device: min(known) for device, known in devices.items() if len(known) >= LEAST}
        for workload, devices in times.items()
    }


Found = Mapping[tuple[str, str], tuple[float, ...]]


def apart(workloads: Sequence[str]) -> Found:
    """Each GPU by a job of its own."""
    return {key: s for device in DEVICES for key, s in tuned(workloads, (device,), (device,)).items()}


def in_turn(workloads: Sequence[str]) -> Found:
    """One job, whose second GPU begins when the first has ended."""
    return tuned(workloads, DEVICES, DEVICES)


def in_turn_from_the_last(workloads: Sequence[str]) -> Found:
    """The same, the other GPU first."""
    return tuned(workloads, DEVICES, DEVICES[::-1])


def at_once(workloads: Sequence[str]) -> Found:
    """One job, on which both work at the same time."""
    return tuned(workloads, DEVICES, ())


def tuned(workloads: Sequence[str], devices: Sequence[str], order: Sequence[str]) -> Found:
    """Best seconds after each slice, by workload and GPU; the GPUs work in this order, or at once if none."""
    with tempfile.TemporaryDirectory() as folder:
        store = JobStore(f"{folder}/jobs.db")
        settings = TuneSettings(replay=DATASET, learn_from="nothing")
        job = JobFile(
            workloads=tuple(workloads),
            sms=(SMS,),
            devices=tuple(devices),
            trials=TRIALS,
            slice=SLICE,
            settings=settings,
        ).job()
        id_ = store.submit(job)
        for device in order:
            work_for(store.place, device)
        sites = [
            multiprocessing.Process(target=work_for, args=(store.place, device))
            for device in devices
            if not order
        ]
        for site in sites:
            site.start()
        for site in sites:
            site.join()
        told = store.show(id_).tasks
    return {
        (task.workload, str(task.device)): each.best_s for task, each in zip(job.tasks, told, strict=True)
    }


def work_for(place: str, device: str) -> None:
    """Do what there is for a GPU."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    work(JobStore(place), once=True, device=device)


def scores(found: Found, best: Mapping[str, Mapping[str, float]]) -> dict[str, list[float]]:
    """Mean score after each slice, by GPU: the best that is known over the best found."""
    by_device: dict[str, list[list[float]]] = defaultdict(list)
    for (workload, device), seconds in found.items():
        by_device[device].append([best[workload][device] / each for each in seconds])
    return {
        device: [round(mean(column), 4) for column in zip(*rows, strict=True)]
        for device, rows in sorted(by_device.items())
    }


def table(found: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """Markdown: the score of each GPU after each slice."""
    steps = range(SLICE, TRIALS + 1, SLICE)
    lines = [
        f"| way | GPU | {' | '.join(f'{step} trials' for step in steps)} |",
        f"| --- | --- |{' ---: |' * len(steps)}",
    ]
    for way, devices in found.items():
        for device, row in devices.items():
            lines.append(f"| {way} | {device} | {' | '.join(f'{score:.3f}' for score in row)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
