"""Carries out what the scheduler decides, and records it."""
