"""HTTP messages: heads, bodies, forms and JSON."""
