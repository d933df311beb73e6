"""Requests in progress, recently finished requests, their store on disk, and usage per API key, model and day."""
