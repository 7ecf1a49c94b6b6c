"""Spiking neural networks in whole numbers: synapses, neurons, and what each step should give, exactly.

A step has two parts, and a kernel for each: neurons are updated with the current of this step
(``lif_update``), and the spikes of those that fired are delivered to the currents of later steps
(``spike_delivery``).
"""

from costmodel.irregular.spiking._block_size import StreamingMultiprocessor, occupancy_block_size
from costmodel.irregular.spiking._delivery import deliver_by_pull, deliver_by_push
from costmodel.irregular.spiking._expected import Deliveries, expected_deliveries, spikes_of_step
from costmodel.irregular.spiking._network import Network, draw_network
from costmodel.irregular.spiking._neurons import LifNeurons, LifState, mask_of, update_neurons
from costmodel.irregular.spiking._shards import Shard, shard
from costmodel.irregular.spiking._simulator import Simulation, simulate

__all__ = [
    "Deliveries",
    "LifNeurons",
    "LifState",
    "Network",
    "Shard",
    "Simulation",
    "StreamingMultiprocessor",
    "deliver_by_pull",
    "deliver_by_push",
    "draw_network",
    "expected_deliveries",
    "mask_of",
    "occupancy_block_size",
    "shard",
    "simulate",
    "spikes_of_step",
    "update_neurons",
]
