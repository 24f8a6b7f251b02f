"""Compare inturn with other queues, on one server and in one run.

Machines differ and are noisy, so a number alone says little. Two kinds of numbers hold on other
machines: the ratio of two numbers of the same round, and a count (WAL bytes, calls). Therefore the
benchmark runs in rounds, and each round visits every peer in turn. If the jobs of a lane ran out of
order or overlapped, the run is marked wrong, however fast it was.

A *peer* is a queue (one file each in peers/). A *row* is a quantity that is measured (rows/). An
*arena* is a fresh database of one peer, with its processes. A *tool* is what jobs have in common,
such as a lock or a limit (jobs.py). `python -m bench --help` lists the options.
"""
