"""Trained models as objects that predict kernels on platforms."""

from costmodel.transfer.prediction._describe import describe_model
from costmodel.transfer.prediction._devices import UnmeasuredDeviceWarning, device_named, read_device
from costmodel.transfer.prediction._model import Model, load_model
from costmodel.transfer.prediction._notes import NOTE_SEPARATOR
from costmodel.transfer.prediction._sweep import SweptKernels, sweep_kernels
from costmodel.transfer.prediction.pyfunc import OUTPUTS, PredictsFromFrame, kernel_frame

__all__ = [
    "NOTE_SEPARATOR",
    "OUTPUTS",
    "Model",
    "PredictsFromFrame",
    "SweptKernels",
    "UnmeasuredDeviceWarning",
    "describe_model",
    "device_named",
    "kernel_frame",
    "load_model",
    "read_device",
    "sweep_kernels",
]
