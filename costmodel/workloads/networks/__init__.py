"""Well-known networks and their blocks, written in ``tvm.relax.frontend.nn``. Loads TVM."""
