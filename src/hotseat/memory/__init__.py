"""Where what is known of memory meets the decider: figures for the catalog, facts for the scheduler, patient hands.

`hardware` measures and `estimates` guesses; neither knows that models are scheduled. Here whoever does is told.
"""
