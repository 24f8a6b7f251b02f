"""The filter and the timeline of jobs."""
