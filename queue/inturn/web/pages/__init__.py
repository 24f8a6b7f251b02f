"""The pages. Each module has one `PAGE`, and is listed here."""

from inturn.web.pages import job, lane, lanes, overview

PAGES = (overview.PAGE, lanes.PAGE, lane.PAGE, job.PAGE)
