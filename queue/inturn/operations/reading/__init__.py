"""What pages, `queue top`, the doctor and metrics ask."""
