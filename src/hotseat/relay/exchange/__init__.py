"""One request from model name to last byte."""
