"""Choosing rules and knobs: search spaces, the search, its log, and the records of other tuners."""
