"""The command line: one module for each command, ``main`` dispatches.

A command's module has ``configure(parser)``, which adds its arguments, and ``run(arguments) -> int``, which gives the
exit code. Only the module of the command that is called is imported.
"""
