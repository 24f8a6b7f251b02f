"""Changes of many jobs or lanes."""
