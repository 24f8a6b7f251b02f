"""Measure how the cost of a defer, a claim and a finish grows with the size of the tables.

Times are shown, but only the counts decide: pages touched and WAL bytes per job, because they are
the same on every machine. A *shape* is a way to fill a queue (shapes.py). The benchmark fills a
shape step by step, and measures some cycles of a hundred jobs after each step (costs.py). It
measures only inturn. INTURN_SOURCE names the checkout, as it does for the rows.
"""
