"""PURE: the house on a virtual clock. Recorded or invented traffic in, the production scheduler's figures out."""
