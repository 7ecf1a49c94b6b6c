"""Well-known networks and their blocks, written in ``tvm.relax.frontend.nn``. Loads TVM."""

from costmodel.workloads.networks._bert import Bert
from costmodel.workloads.networks._decoder import Decode, Prefill
from costmodel.workloads.networks._dlrm import TABLES, WIDTH, Dlrm
from costmodel.workloads.networks._export import export_network
from costmodel.workloads.networks._googlenet import GoogLeNet, Inception
from costmodel.workloads.networks._layers import Layer, Layout, layout_for
from costmodel.workloads.networks._mobilenet import InvertedResidual, MobileNetV2
from costmodel.workloads.networks._resnet import Bottleneck, ResNet50

__all__ = [
    "TABLES",
    "WIDTH",
    "Bert",
    "Bottleneck",
    "Decode",
    "Dlrm",
    "GoogLeNet",
    "Inception",
    "InvertedResidual",
    "Layer",
    "Layout",
    "MobileNetV2",
    "Prefill",
    "ResNet50",
    "export_network",
    "layout_for",
]
