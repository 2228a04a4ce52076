#!/usr/bin/env bats
# TensorBoard itself reads our curves: the tags, the steps, the values.
load helper

@test "TensorBoard has the curves of a run of two ranks, averaged over them" {
    against_torch events.py run
}

@test "TensorBoard, and who reads each file by itself, take back what is trained again, also by a fresh start" {
    against_torch events.py resume
}

@test "TensorBoard sees the curves of a run that is at work" {
    against_torch events.py live
}

@test "TensorBoard compares two runs by their settings, and says where the ranks were" {
    against_torch events.py settings
}
