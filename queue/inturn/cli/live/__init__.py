"""`queue top`."""
