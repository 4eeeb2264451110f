"""ONNX operators to Relax, one family a file. Each function covers every opset of its operators."""
