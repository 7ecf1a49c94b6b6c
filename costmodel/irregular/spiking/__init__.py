"""Spiking neural networks in whole numbers: synapses, neurons, and what each step should give, exactly."""
