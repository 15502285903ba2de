"""Rescue: the disks of a dead cluster in, log dirs that a new cluster starts from out.

``rescue`` is the whole of it. ``plan`` holds what it finds and decides.
"""
