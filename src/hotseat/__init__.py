"""hotseat: one HTTP address for all the models a machine can run."""

__version__ = "0.1.0"
