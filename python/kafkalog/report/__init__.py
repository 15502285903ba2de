"""The report: one HTML page about log dirs, and its numbers as JSON.

`gather` puts the questions of ``verify``, ``stats``, ``explain``, ``groups`` and ``transactions`` and adds up the
answers into an `Overview` (``model``), ``redact`` replaces names in it, ``page`` writes it as HTML. ``columns`` has the
unit and the explanation of every figure; ``small`` is the overview that a notebook shows.
"""
