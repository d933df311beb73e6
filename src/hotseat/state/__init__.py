"""What is kept across restarts."""
