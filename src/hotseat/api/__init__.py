"""The management application: routes and schemas. Inference requests go through the relay and never get here."""
