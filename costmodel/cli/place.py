"""``costmodel place``: the layers of a model over devices."""

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from costmodel.cli._options import JsonOption, count_option, number_option, seed_option
from costmodel.cli._output import print_line, print_table, write_json
from costmodel.errors import CostModelError
from costmodel.report._page import TextTable

if TYPE_CHECKING:
    from costmodel.planner.placement._place import Placement
    from costmodel.planner.placement._problem import PlacementProblem


def place(
    graph: Annotated[
        str,
        typer.Argument(
            metavar="GRAPH.json|FILE.py:MODULE",
            help="Nodes, edges and devices, in the JSON format of dnn-partitioning; or a Relax module, whose "
            "kernels are placed on --slices of one GPU.",
            show_default=False,
        ),
    ],
    objective: Annotated[
        Literal["throughput", "latency"],
        typer.Option(
            help="Minimise the load of the busiest device of a pipeline, or the time of one sample."
        ),
    ] = "throughput",
    accelerators: Annotated[
        int | None,
        count_option(
            help="Number of accelerators. Default: those of the file.", most=1000, show_default=False
        ),
    ] = None,
    slices: Annotated[
        str | None,
        typer.Option(
            metavar="SMS",
            help="SMs of each slice, to place on slices instead, such as `66,66`. Kernels of a module, and "
            "nodes with smLatency, take what was recorded on so many SMs. Other times of a file apply to the "
            "largest slice, and a slice with half of its SMs is assumed to take twice as long.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="GPU whose slices run a module, such as H100. Default: the first recorded, by name.",
            show_default=False,
        ),
    ] = None,
    memory: Annotated[
        int | None,
        count_option(
            help="Memory of each accelerator, in bytes. Default: that of the file.",
            most=10**18,
            metavar="BYTES",
            show_default=False,
        ),
    ] = None,
    non_contiguous: Annotated[
        bool, typer.Option("--non-contiguous", help="Allow values to return to a device that they left.")
    ] = False,
    time_limit: Annotated[
        float,
        number_option(
            "above 0 and at most 1,000,000,000",
            lambda seconds: 0 < seconds <= 1e9,
            help="Time limit of the solver, in seconds; with --non-contiguous, of each of its two searches.",
            metavar="SECONDS",
        ),
    ] = 30.0,
    seed: Annotated[int, seed_option("Seed of the solver.")] = 0,
    json: JsonOption = None,
) -> None:
    """Place the layers of a model on accelerators, on slices of their SMs, and on CPUs.

    Examples:
    - `costmodel place bert24_inference.json --objective latency --accelerators 6`
    - `costmodel place bert24_inference.json --slices 132,66,66 --memory 8000000000 --json out/placement.json`
    - `costmodel place model.py:module --slices 88,44 --device H200`
    """
    from costmodel.planner.graphs._json_graph import is_module_place
    from costmodel.planner.placement._place import place as place_nodes
    from costmodel.planner.placement._problem import read_placement

    on_all_us = None
    if is_module_place(graph):
        if accelerators is not None or memory is not None:
            raise typer.BadParameter("--accelerators and --memory go with a file of nodes, not a module.")
        problem, on_all_us = _of_module(graph, slices, device)
    elif device is not None:
        raise typer.BadParameter("--device goes with a module: a file of nodes has its own times.")
    else:
        problem = _with_devices(read_placement(Path(graph)), accelerators, slices, memory)
    found = place_nodes(problem, objective, contiguous=not non_contiguous, time_limit_s=time_limit, seed=seed)
    # The file first: who reads what is printed may stop before its end.
    write_json(json, {**{name: getattr(found, name) for name in found.__struct_fields__}, "gap": found.gap})
    _print(found, "in the unit of the file" if on_all_us is None else "us")
    if on_all_us is not None and objective == "throughput":
        print_line(
            f"One kernel after the other on all SMs takes {on_all_us:.6g} us a sample: "
            f"these slices finish {on_all_us / found.value:.2f} times as many."
        )


def _of_module(place: str, sms: str | None, device: str | None) -> "tuple[PlacementProblem, float]":
    """The kernels of a module on slices of a GPU, and what they take one after the other on all of it."""
    from costmodel.planner._latencies import open_latencies
    from costmodel.planner.graphs._json_graph import read_relax
    from costmodel.planner.placement._problem import PlacementProblem, kernel_nodes, slices

    if sms is None:
        raise typer.BadParameter("A module is placed on slices of a GPU: give their SMs, such as 66,66.")
    counts, latencies = _sms(sms), open_latencies(device=device)
    if sum(counts) > latencies.device.sms:
        raise CostModelError(
            f"Slices must share the {latencies.device.sms} SMs of {latencies.device.name}, "
            f"but {sms} are {sum(counts)}."
        )
    graphs = {each: read_relax(place, latencies, sms=each).graph for each in {*counts, latencies.device.sms}}
    for sentence in graphs[latencies.device.sms].assumptions:
        print_line(f"Assumed: {sentence}")
    nodes, edges = kernel_nodes(graphs)
    return PlacementProblem(nodes, edges, slices(counts, inf)), sum(node.latency for node in nodes)


def _with_devices(
    problem: "PlacementProblem", accelerators: int | None, sms: str | None, memory: int | None
) -> "PlacementProblem":
    """The problem with other accelerators, where options ask for them."""
    from costmodel.planner.placement._problem import PlacementProblem, slices

    if accelerators is None and sms is None and memory is None:
        return problem
    if accelerators is not None and sms is not None:
        raise CostModelError(
            "Either --accelerators or --slices must be given, but got both: slices are accelerators."
        )
    own = [device for device in problem.devices if not device.is_cpu]
    each = memory if memory is not None else max((device.memory for device in own), default=0)
    counts = _sms(sms) if sms is not None else (1,) * (len(own) if accelerators is None else accelerators)
    cpus = tuple(device for device in problem.devices if device.is_cpu)
    found = slices(counts, each) if counts else ()
    return PlacementProblem(problem.nodes, problem.edges, (*found, *cpus))


def _sms(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(
            f"It must be SMs such as 132,66,66, but got {text}.", param_hint="'--slices'"
        ) from None


def _print(found: "Placement", unit: str) -> None:
    title = f"{found.objective}, {'contiguous' if found.contiguous else 'not contiguous'}"
    rows = []
    for each in found.loads:
        numbers = (f"{value:.4g}" for value in (each.load, each.compute, each.transfer, each.memory / 1e9))
        rows.append((each.device, *numbers, str(len(each.nodes))))
    print_table(TextTable(title, ("device", "load", "compute", "transfer", "GB", "nodes"), rows))
    what = "Busiest device" if found.objective == "throughput" else "One sample"
    proof = (
        "proven optimal"
        if found.is_optimal
        else f"at most {found.gap:.1%} above the best (bound {found.bound:.6g})"
    )
    print_line(f"{what}: {found.value:.6g} {unit}, {proof}; {found.method}, {found.seconds:.1f} s.")
