"""Packs the runtime, a compiled model and all around them as an SDK."""
