"""The queues that are measured, one file each. registry.py lists them."""
