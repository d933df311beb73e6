"""PURE: the production scheduler on a virtual clock. Recorded or invented traffic in, figures out."""
