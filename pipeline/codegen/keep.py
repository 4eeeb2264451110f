"""What the device's compiler must leave as it stands: loops as loops, loads behind what is before them."""

# Loop annotation. Mesa unrolls a loop of few rounds whatever hints say, and its scheduler then moves all their loads to
# the front: a product of 16 rounds spills 100 times and has 2.5 load/store bundles a vector multiply-add instead of
# 0.5. It cannot unroll what begins at a number that it does not know. (Mesa 25.0.7 for the T860)
KEEP = "malisdk.keep"

# Zero: the runtime enqueues without an offset.
UNKNOWN_ZERO = "(int)get_global_offset(0)"

# Loop annotation. Mesa moves all loads of a loop's body to its front, where they have no registers: 7 pixels x 4
# channels of a 1x1 convolution spill 10 vectors, and none with a fence before each run of loads but the first. A fence
# is no instruction there: only the scheduler stops at it. (Mesa 25.0.7 for the T860)
IN_ORDER = "malisdk.in_order"
FENCE = "mem_fence(CLK_GLOBAL_MEM_FENCE);"
