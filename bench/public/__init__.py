"""The public benchmark hardbyte/postgresql-job-queue-benchmarking, with inturn and without Docker.

See README.md beside this file.
"""
