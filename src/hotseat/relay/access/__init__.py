"""Who may ask: origins, keys, hosts of a fleet, and what pages of model servers may do."""
