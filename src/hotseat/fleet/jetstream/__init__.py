"""The store on NATS JetStream: the only part that imports nats, and it is imported only where a fleet is configured."""
