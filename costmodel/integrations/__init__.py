"""Plug-ins for other tuners. Each is a package of its own; importing this package loads none of them."""
