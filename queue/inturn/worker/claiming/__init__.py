"""When a worker claims jobs, and how many. `Claiming` is the one object that the loop asks."""
