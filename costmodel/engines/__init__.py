"""Where stage jobs run: processes of this machine, or workers of Dask distributed or Ray on any machines."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
