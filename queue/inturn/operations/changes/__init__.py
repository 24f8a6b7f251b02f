"""What people inspect and change."""
