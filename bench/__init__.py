"""inturn beside its peers, on one server, in one run.

Machines differ and are noisy, so a number alone says little. What transfers is a ratio of two numbers of the same
round, and a count (WAL bytes, calls). Therefore everything is measured in rounds that visit each peer in turn, and a
run in which a lane's jobs were out of order or overlapped is marked wrong however fast it was.

A *peer* is a queue (peers/, one file each), a *row* is something measured (rows/), an *arena* is a fresh database of
one peer with its processes. `python -m bench --help` tells the rest.
"""
