"""Variants of networks: what is changed of each, and how one iteration of it is run."""

import contextlib
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from networks import Network
from torch import nn

Step = Callable[[], Any]
SMS = (64, 32)


@dataclass(frozen=True)
class Variant:
    """How a network is run.

    Attributes:
        half: In half precision: float16 weights, or autocast to bfloat16 where it is trained.
        graph: As one CUDA graph.
        fused: What of the network is one call: nothing, ``gelu`` or ``attention``.
        optimizer: ``forloop``, ``foreach`` or ``fused`` where it is trained; else empty.
        sms: SMs of the green context that it runs on; 0 for the whole device.
    """

    half: bool = False
    graph: bool = False
    fused: str = ""
    optimizer: str = ""
    sms: int = 0

    @property
    def name(self) -> str:
        """Such as ``half-graph-sms32``; ``eager`` if nothing is changed."""
        parts = ["half" if self.half else "", self.fused, self.optimizer, "graph" if self.graph else ""]
        return "-".join([*filter(None, parts), *([f"sms{self.sms}"] if self.sms else [])]) or "eager"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def variants_of(network: Network) -> list[Variant]:
    """Those of a network, on the whole device first."""
    if network.calibrates:
        return [Variant(), Variant(graph=True)]
    if not network.optimizer:
        base = Variant()
        found = [Variant(half=half, graph=graph) for half in (False, True) for graph in (False, True)]
        fused = [Variant(fused=part, graph=graph) for part in network.fusions for graph in (False, True)]
        fused += [replace(each, half=True) for each in fused if each.fused == "attention"]
    else:
        base = Variant(optimizer="foreach")
        found = [Variant(optimizer=name) for name in ("forloop", "foreach", "fused")]
        found += [Variant(half=half, graph=True, optimizer="fused") for half in (False, True)]
        found += [Variant(half=True, optimizer="foreach"), Variant(half=True, optimizer="fused")]
        fused = [replace(base, fused=part) for part in network.fusions]
    parts = [base, next(each for each in found if each.graph), next(e for e in found if e.graph and e.half)]
    return [*found, *fused, *(replace(each, sms=sms) for each in parts for sms in SMS)]


class Runner:
    """Makes the steps of variants on one device."""

    def __init__(self, network: Network, device: str, partitions: "Partitions") -> None:
        """Nothing is built yet.

        Args:
            network: What is run.
            device: ``cpu`` or ``cuda``.
            partitions: Streams of parts of the device.
        """
        self.network, self.device, self.partitions = network, device, partitions
        self._module = lru_cache(maxsize=None)(self._build)

    def prepare(self, variant: Variant) -> tuple[Step, Any]:
        """A step of a variant, warmed up, and the stream that it must run on (None on a CPU).

        Raises:
            RuntimeError: The variant cannot be run.
        """
        if self.device == "cpu" and (variant.graph or variant.sms):
            raise RuntimeError("CUDA graphs and green contexts need a GPU")
        stream = self.partitions.stream(variant.sms)
        step = self._training(variant) if self.network.optimizer else self._inference(variant)
        if stream is not None:
            torch.cuda.synchronize()  # weights and inputs are made on the default stream
        with on_stream(stream):
            for _ in range(3):
                step()
            finish(stream)
            if variant.graph:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=stream):
                    step()
                return Captured(graph, step), stream
        return step, stream

    def _build(self, fused: str, dtype: torch.dtype) -> nn.Module:
        torch.manual_seed(0)
        with torch.device(self.device):
            return self.network.build(fused).to(dtype)

    def _inputs(self, dtype: torch.dtype) -> list[torch.Tensor]:
        torch.manual_seed(1)
        with torch.device(self.device):
            found = self.network.inputs()
        return [each.to(dtype) if each.is_floating_point() else each for each in found]

    def _inference(self, variant: Variant) -> Step:
        dtype = torch.float16 if variant.half else torch.float32
        module, inputs = self._module(variant.fused, dtype).eval(), self._inputs(dtype)

        def step() -> None:
            with torch.no_grad():
                module(*inputs)

        return step

    def _training(self, variant: Variant) -> Step:
        module = deepcopy(self._module(variant.fused, torch.float32)).train()
        inputs = self._inputs(torch.float32)
        kind: Any = getattr(torch.optim, self.network.optimizer)
        momentum = {"momentum": 0.9} if self.network.optimizer == "SGD" else {}
        how = {name: name == variant.optimizer for name in ("foreach", "fused")}
        if self.network.optimizer == "AdamW":
            how["capturable"] = variant.graph
        optimizer = kind(module.parameters(), lr=1e-4, **momentum, **how)

        def step() -> None:
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(self.device, torch.bfloat16, enabled=variant.half):
                loss = module(*inputs).float().square().mean()
            loss.backward()
            optimizer.step()

        return step


@dataclass(frozen=True)
class Captured:
    """A CUDA graph of a step, whose tensors it keeps."""

    graph: Any
    step: Step

    def __call__(self) -> None:
        self.graph.replay()


class Partitions:
    """A stream of the whole device and one of each part of it; none on a CPU."""

    def __init__(self, device: str) -> None:
        self._is_cuda = device == "cuda"
        self._contexts: Any = None
        self.granted: dict[int, int] = {}

    def stream(self, sms: int) -> Any:
        """A stream on so many SMs, 0 for all.

        Raises:
            ImportError: The project's packages, or those of CUDA, are absent.
            RuntimeError: The driver refuses.
        """
        if not self._is_cuda:
            return None
        if not sms:
            return self._whole()
        from costmodel.collector import GreenContexts

        torch.cuda.current_stream()  # PyTorch first, so that both have the primary context
        self._contexts = self._contexts or GreenContexts()
        handles, self.granted[sms] = self._contexts.streams(sms)
        return torch.cuda.ExternalStream(handles[0])

    @lru_cache  # noqa: B019 (one object a process)
    def _whole(self) -> Any:
        return torch.cuda.Stream()


@contextlib.contextmanager
def on_stream(stream: Any) -> Iterator[None]:
    """Launch what follows on a stream; on a CPU there is none."""
    with torch.cuda.stream(stream) if stream is not None else contextlib.nullcontext():
        yield


def finish(stream: Any) -> None:
    """Wait until a stream is done."""
    if stream is not None:
        stream.synchronize()
