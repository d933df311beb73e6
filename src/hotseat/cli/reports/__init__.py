"""What people send to the maintainers: a bundle for a bug report, and figures of a machine with GPUs."""
