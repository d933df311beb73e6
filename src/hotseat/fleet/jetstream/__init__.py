"""The store on NATS JetStream: the only package that imports nats, loaded only where a fleet is configured."""
