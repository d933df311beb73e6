"""JSON that no Python reads: up to 3.13 it counts levels, since 3.14 it looks at the space left on the stack."""

TOO_DEEP = 2_000_000
