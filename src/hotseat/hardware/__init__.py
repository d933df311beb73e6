"""Measures memory: how much there is, how much is free, and what each model server takes. Decides nothing."""
