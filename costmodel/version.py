"""The version of this package."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("sm-costmodel")
except PackageNotFoundError:  # the source tree on the path, not installed
    __version__ = "0+unknown"
