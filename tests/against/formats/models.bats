#!/usr/bin/env bats
# A model's files and tools that need no PyTorch.
VENV=models PACKAGES="safetensors==0.8.0 numpy==2.4.6 tinygrad==0.14.0 onnx==1.23.2 onnxruntime==1.32.0"
load helper

@test "a checkpoint that safetensors has written again is the same checkpoint, in another order" {
    crossed models.py rewritten
}

@test "tinygrad reads a checkpoint's tensors, and what it saves is the same model" {
    crossed models.py tinygrad
}

@test "an export becomes an ONNX model by a script, answers alike in onnxruntime, and comes back" {
    crossed models.py onnx
}
