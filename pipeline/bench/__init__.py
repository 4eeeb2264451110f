"""Benchmarks: networks as predicted for the board, and ours against plain TVM's kernels where there is a GPU."""
