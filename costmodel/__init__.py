"""A transfer-learning cost model for kernel autotuning on GPUs that are shared.

Importing this package loads none of its heavy dependencies (tvm, torch, xgboost, mlflow, cuda).
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("sm-costmodel")
except PackageNotFoundError:  # the source tree on the path, not installed
    __version__ = "0+unknown"

__all__ = ["__version__"]
