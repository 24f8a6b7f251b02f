"""What an app offers to look at the queue and to change it: `app.job_manager`, `app.lanes`, `app.schema_manager`."""
