"""From Relax modules to kernels, and from kernels to workloads. Loads TVM, as all else here does not."""
