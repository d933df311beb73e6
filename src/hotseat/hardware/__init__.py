"""What memory there is, how much of it is free, and which of our processes takes how much. Measures; never decides."""
