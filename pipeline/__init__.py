"""From a trained network to an SDK for a Mali board."""

__version__ = "0.1.0"
