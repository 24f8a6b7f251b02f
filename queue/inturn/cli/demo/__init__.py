"""`queue demo`."""
