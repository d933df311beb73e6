"""How the house is measured and what it writes down: metrics, log lines, the loop's lag."""
