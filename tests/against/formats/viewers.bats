#!/usr/bin/env bats
# Programs that show files of ours.
VENV=viewers PACKAGES="netron==9.3.3 torch-tb-profiler==0.4.3 tensorboard==2.21.0" NEEDS_TORCH=1
load helper

@test "Netron shows a checkpoint's tensors by layer" {
    command -v chromium google-chrome chromium-browser >/dev/null || skip "no Chromium (./setup.sh --browser)"
    crossed viewers.py netron
}

@test "PyTorch's profiler plugin opens our trace, and counts no operators in it" {
    crossed viewers.py profiler
}
