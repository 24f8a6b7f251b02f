"""What producers and workers call."""
