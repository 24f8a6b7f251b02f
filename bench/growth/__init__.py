"""Does it stay flat? What a defer, a claim and a finish cost against how much lies in the tables.

Seconds are shown, but what decides are the counts: pages touched and WAL bytes per job, which are the same on every
machine. A *shape* is a way in which a queue can be full (shapes.py); it is filled step by step, and after each step some
hundred-job cycles are measured (costs.py). Only inturn is measured; the checkout is named by INTURN_SOURCE as for the rows.
"""
