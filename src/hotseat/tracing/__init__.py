"""OpenTelemetry traces: one for each request to a model, made when the request has ended."""
