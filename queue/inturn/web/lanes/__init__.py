"""Lists, pictures and actions of lanes."""
