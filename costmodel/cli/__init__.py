"""The command line: ``costmodel COMMAND``, one module a command, which is imported when it is called."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
