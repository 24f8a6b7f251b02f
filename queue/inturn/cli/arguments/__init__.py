"""What a command is about: its arguments, its options and its confirmation."""
