"""What is remembered across restarts."""
