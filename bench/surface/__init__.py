"""Measure the whole surface: from one lane to 100,000, from one job in each to 1,000.

A *shape* is a number of lanes, jobs, workers, queues and priorities (shapes.py). Each round takes
the shapes in turn, and each peer runs each shape twice (measure.py): cold, by workers that have
never seen the database, and warm, by the same workers. All jobs are committed before the workers
may go on, and the tables have been vacuumed and analysed at a bad moment.

A shape is compared with free jobs of the same number, and with the other peers (summary.py). The
fastest peer and the fastest that is right are both named, because they are rarely the same.
"""
