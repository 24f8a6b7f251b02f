"""When a worker claims jobs, and how many. `Claiming` is the loop's only entry point."""
