"""Cache files of Kernel Tuner."""
