import json, os, subprocess, sys
import ours

sys.path.insert(0, 'tests/against/browser')


def netron():
    """Its page asks first whether it may use cookies."""
    import chromium, netron
    host, port = netron.start(ours.CHECKPOINT, browse=False)
    with chromium.Page() as page:
        page.open('http://%s:%d/' % (host, port))
        page.wait_for("(() => { const accept = [...document.querySelectorAll('button')].find(b => b.textContent.trim() == 'Accept');"
                      " accept?.click(); return document.body.textContent.includes('conv1') })()")
        text = page.evaluate("document.body.textContent")
    print(text)
    assert all(name in text for name in ('conv1', 'fc2', 'optimizer.fc2.weight'))
    netron.stop()


def profiler():
    folder = ours.SCRATCH + '/run'
    os.mkdir(folder)
    trace = folder + '/host.1.pt.trace.json'
    subprocess.run(['02_multi_gpu_spawn/run.sh', '2', '--threads', '1', '--max-steps', '5', '--trace', trace, '--checkpoint-dir', ours.SCRATCH],
                   check=True, capture_output=True)
    from torch_tb_profiler import io
    from torch_tb_profiler.profiler import RunLoader
    loaded = RunLoader('run', folder, io.Cache()).load()
    profile, = loaded.profiles.values()
    assert [view.display_name for view in loaded.views] == ['Overview', 'Operator', 'Trace']
    shown = open(profile.trace_file_path).read()
    assert json.loads(shown)['traceEvents'] and '"all_reduce"' in shown
    assert profile.operation_table_by_name['data'] == []  # counts only PyTorch's own categories


if __name__ == '__main__':  # the profiler's plugin starts processes
    globals()[ours.TEST]()
