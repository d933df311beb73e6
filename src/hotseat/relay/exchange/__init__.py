"""One request, from its model name to its last byte."""
