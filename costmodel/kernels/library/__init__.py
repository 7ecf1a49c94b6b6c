"""What PyTorch runs of an operator, as kernels beside others. Importing this loads no PyTorch."""
