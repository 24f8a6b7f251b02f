"""Lists and pictures of lanes."""
