"""Placements against every placement there is, and what cannot be placed."""

import signal
import threading
from math import inf

import numpy as np
import pytest
from every_placement import EveryPlacement, draw

from costmodel.errors import CostModelError, MissingExtraError
from costmodel.planner import Node, PlacementDevice, PlacementProblem, place
from costmodel.planner.placement import _place
from costmodel.planner.placement._evaluate import device_loads
from costmodel.planner.placement._improve import Annealing, improve, share_out_pairs
from costmodel.planner.placement._models import bound_by_share
from costmodel.planner.placement._place import judge_placement
from costmodel.planner.placement._problem import slices
from costmodel.planner.placement._solver import Scale, import_cp_model, make_blocks, solve

pytestmark = pytest.mark.white_box

TWO = (PlacementDevice(name="a"), PlacementDevice(name="b"))


def chain(count: int, **settings: object) -> PlacementProblem:
    nodes = tuple(Node(id=i, latency=1.0, **settings) for i in range(count))
    return PlacementProblem(nodes, tuple((i, i + 1) for i in range(count - 1)), TWO)


@pytest.mark.parametrize("seed", range(24))
def test_the_best_of_all_placements_is_found_and_proven(seed: int) -> None:
    problem = draw(seed, largest=8)
    every = EveryPlacement(problem)
    for best, found in (
        (every.least_max_load(contiguous=True), place(problem)),
        (every.least_max_load(contiguous=False), place(problem, contiguous=False)),
        (every.least_latency(), place(problem, "latency")),
    ):
        assert found.value == pytest.approx(best, abs=1e-9)
        assert found.bound <= best + 1e-9
        assert found.is_optimal


@pytest.mark.parametrize("seed", range(3))
def test_more_freedom_is_never_worse_when_time_runs_out(seed: int) -> None:
    """A contiguous placement is one without that demand, too."""
    rng = np.random.default_rng(seed)
    nodes = tuple(
        Node(id=i, latency=float(rng.uniform(0.1, 2)), transfer=float(rng.uniform(0.05, 0.6)))
        for i in range(60)
    )
    edges = tuple(sorted({(i, int(j)) for i in range(59) for j in rng.integers(i + 1, min(i + 14, 60), 2)}))
    problem = PlacementProblem(nodes, edges, tuple(PlacementDevice(name=f"gpu {i}") for i in range(4)))
    contiguous = place(problem, time_limit_s=0.5)
    free = place(problem, contiguous=False, time_limit_s=1.5)  # of each search; slack for a busy machine
    assert free.value <= contiguous.value + 1e-9


def test_two_devices_at_a_time_share_out_what_one_had() -> None:
    """Twelve pairs of nodes that must not be parted, and a CPU that is four times as slow."""
    nodes = [Node(id=i, latency=1.0, cpu_latency=4.0, transfer=9.0 * (i % 2 == 0)) for i in range(24)]
    edges = [(i, i + 1) for i in range(0, 24, 2)]
    devices = [
        *(PlacementDevice(name=f"gpu {i}") for i in range(4)),
        PlacementDevice(name="cpu", is_cpu=True),
    ]
    problem = PlacementProblem(tuple(nodes), tuple(edges), tuple(devices))
    shared = share_out_pairs(problem, dict.fromkeys(range(24), "gpu 1"), time_limit_s=60, seed=0)
    assert judge_placement(problem, shared, contiguous=False).value == pytest.approx(6.0)
    assert share_out_pairs(problem, shared, time_limit_s=60, seed=0) == shared


def test_clusters_move_where_no_block_gains_by_moving_alone() -> None:
    """Twelve rings of six nodes, all on one of four devices: parting a ring costs more than it takes."""
    nodes = tuple(Node(id=i, latency=1.0, transfer=20.0) for i in range(72))
    edges = tuple((i, i + 1) for i in range(72) if i % 6 < 5) + tuple((i, i + 5) for i in range(0, 72, 6))
    problem = PlacementProblem(nodes, edges, tuple(PlacementDevice(name=f"gpu {i}") for i in range(4)))
    start = dict.fromkeys(range(72), "gpu 1")
    search = Annealing(make_blocks(problem, contiguous=False), start, 72.0, seed=0)
    search.run(20_000, inf)
    assert max(search.loads) == pytest.approx(18.0)


@pytest.mark.parametrize("seed", range(12))
def test_loads_stay_true_while_blocks_move_and_memory_suffices(seed: int) -> None:
    problem = draw(seed, largest=8)
    start = place(problem, contiguous=False, method="prefixes")
    blocks = make_blocks(problem, contiguous=False)
    names = [name for kind in blocks.kinds for name in kind.names]
    search = Annealing(blocks, start.device_of, start.value, seed=seed)
    search.run(700, inf)
    placed = {node: names[at] for nodes, at in zip(blocks.nodes, search.at, strict=True) for node in nodes}
    loads = {each.device: each.load for each in device_loads(problem, placed)}
    assert dict(zip(names, search.loads, strict=True)) == pytest.approx(loads)
    judge_placement(problem, placed, contiguous=False)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_made_better_is_the_same_for_the_same_seed(seed: int) -> None:
    problem = draw(seed, largest=8)
    start = place(problem, contiguous=False, method="prefixes")
    one, other = (improve(problem, start.device_of, time_limit_s=60, seed=3) for _ in range(2))
    assert one == other
    assert judge_placement(problem, one, contiguous=False).value <= start.value + 1e-9


@pytest.mark.parametrize("seed", range(24))
def test_what_a_share_must_move_is_a_bound(seed: int) -> None:
    problem = draw(seed, largest=8)
    best = EveryPlacement(problem).least_max_load(contiguous=False)
    blocks = make_blocks(problem, contiguous=False)
    for known in (best, 1.5 * best):
        assert bound_by_share(blocks, known, time_limit_s=60, seed=0) <= best + 1e-9


def test_a_share_that_parts_a_ring_moves_two_values() -> None:
    """A ring of 30 nodes, of which a CPU that is 30 times as slow does at most .35 in the time of 10.5."""
    nodes = tuple(Node(id=i, latency=1.0, cpu_latency=30.0, transfer=0.25) for i in range(30))
    edges = (*((i, i + 1) for i in range(29)), (0, 29))
    gpus = (PlacementDevice(name=f"gpu {i}") for i in range(3))
    devices = (*gpus, PlacementDevice(name="cpu", is_cpu=True))
    blocks = make_blocks(PlacementProblem(nodes, edges, devices), contiguous=False)
    found = bound_by_share(blocks, 10.5, time_limit_s=60, seed=0)
    assert found == pytest.approx((30 - 10.5 / 30) / 3 + 0.5, abs=0.02)


@pytest.mark.parametrize("seed", range(8))
def test_sharing_out_pairs_never_makes_a_placement_worse(seed: int) -> None:
    problem = draw(seed, largest=8)
    start = place(problem, contiguous=False, method="prefixes")
    shared = share_out_pairs(problem, start.device_of, time_limit_s=60, seed=0)
    found = judge_placement(problem, shared, contiguous=False).value
    assert EveryPlacement(problem).least_max_load(contiguous=False) - 1e-9 <= found <= start.value + 1e-9


@pytest.mark.parametrize("method", ["prefixes", "greedy"])
def test_what_needs_no_solver_is_a_placement(method: _place.Method) -> None:
    for seed in range(40):
        problem = draw(seed, largest=7)
        every = EveryPlacement(problem)
        for objective, best in (
            ("throughput", every.least_max_load(contiguous=True)),
            ("latency", every.least_latency()),
        ):
            try:
                found = place(problem, objective, method=method)
            except CostModelError:  # in this order memory does not suffice
                continue
            assert found.bound - 1e-9 <= best <= found.value + 1e-9


def test_prefixes_are_best_for_a_chain() -> None:
    found = place(chain(5, transfer=0.25), method="prefixes")
    assert (found.value, found.device_of[0], found.device_of[4]) == (3.25, "a", "b")


def test_the_same_seed_gives_the_same_placement() -> None:
    problem = draw(5)
    one, other = place(problem, seed=3), place(problem, seed=3)
    assert one.device_of == other.device_of


def test_a_slower_slice_has_less_to_do() -> None:
    problem = PlacementProblem(chain(6).nodes, chain(6).edges, slices((132, 66), memory=1e9))
    found = place(problem)
    assert [len(each.nodes) for each in found.loads] == [4, 2]
    assert found.value == 4.0


@pytest.mark.parametrize(
    ("sms", "latency"), [(66, 3.0), (132, 2.0), (93, 3 * (2 / 3) ** (np.log(93 / 66) / np.log(2))), (33, 6.0)]
)
def test_a_node_takes_what_was_recorded_on_the_sms_of_a_slice(sms: int, latency: float) -> None:
    node = Node(id=0, latency=9.0, sm_latency={132: 2.0, 66: 3.0})
    assert slices((sms, 200), memory=1e9)[0].latency(node) == pytest.approx(latency)
    assert PlacementDevice(name="gpu", speed=0.5).latency(node) == 18.0


def test_slices_of_other_sms_are_of_other_kinds() -> None:
    """Of two slices of half the speed, the one whose SMs suit a node has it."""
    nodes = (Node(id=0, latency=1.0, sm_latency={16: 8.0, 132: 1.0}), Node(id=1, latency=1.0))
    found = place(PlacementProblem(nodes, (), slices((132, 16), memory=1e9)), contiguous=False)
    assert (found.value, set(found.device_of.values())) == (2.0, {"accelerator 1"})


def test_backward_nodes_follow_their_colour_and_may_return() -> None:
    nodes = tuple(Node(id=i, latency=1.0, colour=i % 2, backward=i > 1) for i in range(4))
    found = place(PlacementProblem(nodes, ((0, 1), (1, 3), (3, 2)), TWO))
    assert found.value == 2.0
    assert found.device_of[0] == found.device_of[2] != found.device_of[1] == found.device_of[3]
    with pytest.raises(CostModelError, match="no node may be backward, but node 2 is"):
        place(PlacementProblem(nodes, (), TWO), "latency")


def test_a_value_that_returns_is_refused_where_it_must_not() -> None:
    back = {0: "a", 1: "b", 2: "a"}
    assert judge_placement(chain(3), back, contiguous=False).value == 2.0
    for objective in ("throughput", "latency"):
        with pytest.raises(CostModelError, match="send no value back"):
            judge_placement(chain(3), back, objective)


@pytest.mark.parametrize(
    ("placed", "message"),
    [
        ({0: "a"}, "Node 1 must be on a device, but is on nothing"),
        ({0: "a", 1: "d"}, "Node 1 must be on a device, but is on d"),
        ({0: "a", 1: "b"}, "Colour 7 must be on one device, but is on a and b"),
        ({0: "a", 1: "a"}, "a must hold its nodes in 10 bytes, but they take 12"),
    ],
)
def test_what_is_no_placement_is_said(placed: dict[int, str], message: str) -> None:
    nodes = tuple(Node(id=i, latency=1.0, memory=6, colour=7) for i in range(2))
    devices = (PlacementDevice(name="a", memory=10), PlacementDevice(name="b", memory=12))
    with pytest.raises(CostModelError, match=message):
        judge_placement(PlacementProblem(nodes, ((0, 1),), devices), placed)


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        ([Node(id=4, latency=inf)], [], "Node 4 must run on some device, but runs on none"),
        ([Node(id=4, latency=1, memory=11)], [], "Node 4 must fit .* takes 11 bytes and the largest has 10"),
        ([Node(id=4, latency=1)], [(4, 5)], "An edge must join nodes of the graph, but got 4 to 5"),
        ([Node(id=4, latency=1)] * 2, [], "A node's id must occur once, but 4 occurs more often"),
        ([Node(id=4, latency=1), Node(id=5, latency=1)], [(4, 5), (5, 4)], "cycle, but got .*4.*5"),
        ([Node(id=4, latency=float("nan"))], [], "Node 4: latency must be at least 0 and below"),
        ([Node(id=4, latency=1e308)], [], "below 1e18, but got 1e[+]308"),
        ([Node(id=4, latency=1.0, memory=float("inf"))], [], "memory must be at least 0 and below 1e18"),
        ([Node(id=4, latency=1, memory=0.5)], [], "Node 4: memory must be whole bytes"),
        ([Node(id=4, latency=1, sm_latency={8: 0.0})], [], "Node 4: on at least one SM .* takes 0.0 on 8"),
        (
            [Node(id=i, latency=1, memory=6, colour=1) for i in (4, 5)],
            [],
            r"Colour 1 \(nodes 4, 5\) must fit",
        ),
    ],
)
def test_what_is_no_problem_is_said(nodes: list[Node], edges: list[tuple[int, int]], message: str) -> None:
    with pytest.raises(CostModelError, match=message):
        PlacementProblem(tuple(nodes), tuple(edges), (PlacementDevice(name="a", memory=10),))


@pytest.mark.parametrize("objective", ["throughput", "latency"])
def test_memory_that_suffices_for_each_node_but_not_for_all_is_said(objective: _place.Objective) -> None:
    nodes = tuple(Node(id=i, latency=1.0, memory=6) for i in range(3))
    problem = PlacementProblem(nodes, (), tuple(PlacementDevice(name=name, memory=10) for name in "ab"))
    with pytest.raises(CostModelError, match="Nodes must fit into the memory"):
        place(problem, objective)


def test_without_the_solver_prefixes_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ortools.sat.python", None)
    with pytest.raises(MissingExtraError, match=r"Proving a placement .*planner"):
        place(chain(3), method="cp-sat")
    monkeypatch.setattr(_place, "has_solver", lambda: False)
    assert place(chain(3)).method == "prefixes"


@pytest.mark.usefixtures("_interruptible")
def test_ctrl_c_ends_a_search_and_whatever_follows() -> None:
    """Of equations that take hours (Cornuéjols and Dawande's market split)."""
    model, rng = import_cp_model().CpModel(), np.random.default_rng(0)
    chosen = [model.new_bool_var("") for _ in range(40)]
    for weights in rng.integers(0, 100, (5, 40)).tolist():
        model.add(sum(w * x for w, x in zip(weights, chosen, strict=True)) == sum(weights) // 2)
    main_thread = threading.main_thread().ident
    threading.Timer(0.5, signal.pthread_kill, (main_thread, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        solve(model, Scale(1.0), 10.0, 0)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
