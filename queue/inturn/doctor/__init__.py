"""What is wrong with a queue, and what to do about it.

`queue doctor` and `queue web` show the same findings.
"""
