"""Access control: origins, keys, fleet hosts, and what pages of model servers may do."""
