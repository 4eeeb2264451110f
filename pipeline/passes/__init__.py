"""Graph rewrites on Relax, one a file; pipeline.py is the list."""
