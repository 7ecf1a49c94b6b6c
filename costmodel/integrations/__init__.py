"""Plug-ins for other people's tuners. Importing this loads none of them; each is a package of its own."""
