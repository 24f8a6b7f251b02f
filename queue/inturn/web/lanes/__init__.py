"""Lists and pictures of lanes, and what can be done with one."""
