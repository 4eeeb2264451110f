"""One command of `python -m malisdk_pipeline` a file.

Each file has `SUMMARY`, `add_arguments(parser)` and `main(args) -> int`; it imports heavy modules only inside `main`.
"""
