"""A small model of the Functions host (facts.md 1-8, 11, 12), and what becomes of handlers under it.

`virtual.py` is an event loop in which waiting takes no time, `simulator.py` the host with its leases, `apps.py` the
handlers: the one of Microsoft's samples, and ours; `world.py` an account with faults by script.
"""
