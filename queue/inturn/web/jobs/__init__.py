"""The filter and the life of jobs."""
