"""One file per family of MXNet operators; all functions take (emitter, node) and return tensors."""
