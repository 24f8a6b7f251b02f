"""The pages. Each module has one `PAGE`, or several, and is listed here."""

from inturn.web.pages import bulk, bulk_run, errors, job, jobs, lane, lanes, overview

PAGES = (
    overview.PAGE,
    lanes.PAGE,
    lane.PAGE,
    jobs.PAGE,
    job.PAGE,
    errors.PAGE,
    *bulk.PAGES,
    *bulk_run.PAGES,
)
