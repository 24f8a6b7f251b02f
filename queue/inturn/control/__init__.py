"""Inspect and change the queue: `app.job_manager`, `app.lanes`, `app.schema_manager`."""
