"""Look at the queue and change it: `app.job_manager`, `app.lanes`, `app.schema_manager`."""
