"""PURE: what may run: names, launch recipes and groups, validated."""
