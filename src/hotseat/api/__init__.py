"""The management application: routes and shapes. Inference never passes through here; that is the relay's road."""
