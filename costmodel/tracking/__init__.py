"""What an experiment logs, and MLflow, which stores it.

A command makes a result. A generator next to that result yields items to log, and one loop writes them to a
``Tracker``. Nothing is sent anywhere except to the place that was named.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
