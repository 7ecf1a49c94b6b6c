"""The command line: ``costmodel COMMAND``, one module a command."""
