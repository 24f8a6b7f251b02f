"""What people look at and change."""
