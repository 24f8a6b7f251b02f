"""Everything independent of the store: locks, leases, waiting, and the watchdog."""
