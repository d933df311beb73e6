"""PURE: what may run. Names, recipes and groups, already validated."""
