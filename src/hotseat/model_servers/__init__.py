"""Model servers as processes: start, watch and stop them, and make sure that none outlives hotseat."""
