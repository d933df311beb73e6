"""Reads configuration files into a Catalog and Settings, or reports every error with file, line and column."""
