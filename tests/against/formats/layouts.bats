#!/usr/bin/env bats
# Libraries whose kernels lie differently in memory, or whose numbers are narrower.
VENV=layouts PACKAGES="keras==3.15.1 h5py==3.16.0 jax==0.10.2 jaxlib==0.10.2 safetensors==0.8.0 numpy==2.4.6"
load helper

@test "Keras answers alike once kernels and the channels behind Flatten are turned, and its .keras comes back" {
    crossed layouts.py keras
}

@test "JAX has the same weights, an int64 as int32, and what it saves is the same model" {
    crossed layouts.py jax
}
