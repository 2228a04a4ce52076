"""A job of step 05, and tools/watch beside it: for the tests of its page."""
import contextlib
import os
import re
import signal
import subprocess
import tempfile


@contextlib.contextmanager
def watched(ranks, options, watch_options=()):
    """Starts both, the job with the options of 05's train. Gives the process of tools/watch and the page's address, and ends
    both: tools/watch must end cleanly."""
    with tempfile.TemporaryDirectory() as made, open(made + "/log", "w") as log:
        job = subprocess.Popen(["05_fault_tolerance/ddprun", "--nproc-per-node", str(ranks), "--max-restarts", "3", "05_fault_tolerance/train",
                                *options, "--threads", "1", "--checkpoint-dir", made + "/checkpoints", "--metrics-dir", made + "/metrics"],
                               stdout=log, stderr=log)
        watch = subprocess.Popen([os.path.abspath("tools/watch"), "checkpoints", "--port", "0", *watch_options], cwd=made,
                                 stdout=subprocess.PIPE, text=True)
        try:
            yield watch, re.search(r"http://\S+", watch.stdout.readline())[0]
        finally:
            watch.send_signal(signal.SIGTERM)
            assert watch.wait(200) == 0, "tools/watch did not end cleanly"
            watch.stdout.close()
            job.send_signal(signal.SIGTERM)
            job.wait(200)
