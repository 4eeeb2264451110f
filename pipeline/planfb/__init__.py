"""Generated FlatBuffers code of the plan; pipeline/container.py is the only user."""
