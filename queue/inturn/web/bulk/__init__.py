"""Bulk changes of jobs and lanes, from the request to the last step."""
