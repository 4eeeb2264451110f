"""From a scheduled PrimFunc to OpenCL C and launch geometry."""
