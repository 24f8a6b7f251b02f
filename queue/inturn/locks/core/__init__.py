"""Everything that does not depend on the store: locks, leases, waiting, and the watchdog."""
