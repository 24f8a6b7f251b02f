"""Changes of many jobs or lanes, from the request to the last step."""
