"""When a worker claims jobs, and how many."""
