#!/usr/bin/env bats
# Libraries around PyTorch that save and load a model's weights in forms of their own.
VENV=libraries PACKAGES="lightning==2.6.6 accelerate==1.15.0 huggingface_hub==2.4.0 onnx==1.23.2 onnxscript==0.7.2" NEEDS_TORCH=1
load helper

@test "Lightning's .ckpt becomes the same model, without the name of the attribute that held it" {
    crossed libraries.py lightning
}

@test "the shards of accelerate's save_model are the same model" {
    crossed libraries.py accelerate
}

@test "the folder of a PyTorchModelHubMixin is a model for us, and ours is one for it" {
    crossed libraries.py mixin
}

@test "what torch.onnx.export and torch.export save becomes the same model" {
    crossed libraries.py exported
}
