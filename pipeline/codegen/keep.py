"""Loops that the device's compiler must leave as loops."""

# Loop annotation. Mesa unrolls a loop of few rounds whatever hints say, and its scheduler then moves all their loads to
# the front: a product of 16 rounds spills 100 times and has 2.5 load/store bundles a vector multiply-add instead of
# 0.5. It cannot unroll what begins at a number that it does not know. (Mesa 25.0.7 for the T860)
KEEP = "malisdk.keep"

# Zero: the runtime enqueues without an offset.
UNKNOWN_ZERO = "(int)get_global_offset(0)"
