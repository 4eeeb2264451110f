"""How kernels are scheduled: one rule a file, one folder a device family."""
