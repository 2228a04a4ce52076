import importlib.util
import torch
from torch import nn
import ours

spec = importlib.util.spec_from_file_location('load_in_pytorch', ours.RUN + '/model/load_in_pytorch.py')
load_in_pytorch = importlib.util.module_from_spec(spec)
spec.loader.exec_module(load_in_pytorch)
MODEL, WANTED = load_in_pytorch.model, ours.told(ours.MODEL)


def lightning():
    import lightning

    class Trained(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = MODEL

        def training_step(self, batch, _):
            return nn.functional.nll_loss(self.model(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0)

    data = torch.utils.data.TensorDataset(torch.zeros(4, 1, 28, 28), torch.zeros(4).long())
    trainer = lightning.Trainer(max_epochs=1, accelerator='cpu', logger=False, enable_checkpointing=False, enable_progress_bar=False,
                                enable_model_summary=False)
    trainer.fit(Trained(), torch.utils.data.DataLoader(data, batch_size=4))
    trainer.save_checkpoint(ours.SCRATCH + '/last.ckpt')
    assert ours.told(ours.converted(ours.SCRATCH + '/last.ckpt')) == WANTED


def accelerate():
    import os
    import accelerate
    folder = ours.SCRATCH + '/shards'
    accelerate.Accelerator(cpu=True).save_model(MODEL, folder, max_shard_size='1MB')
    assert 'model.safetensors.index.json' in os.listdir(folder)
    assert ours.told(folder) == WANTED


def mixin():
    import huggingface_hub

    class Net(nn.Module, huggingface_hub.PyTorchModelHubMixin):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
            self.fc1, self.fc2 = nn.Linear(9216, 128), nn.Linear(128, 10)

    net = Net.from_pretrained(ours.RUN + '/model', strict=True)
    net.save_pretrained(ours.SCRATCH + '/mixin')
    assert ours.told(ours.SCRATCH + '/mixin') == WANTED


def exported():
    example = torch.zeros(2, 1, 28, 28)
    torch.onnx.export(MODEL, (example,), ours.SCRATCH + '/net.onnx')
    assert ours.told(ours.converted(ours.SCRATCH + '/net.onnx')) == WANTED
    torch.export.save(torch.export.export(MODEL, (example,)), ours.SCRATCH + '/net.pt2')
    import subprocess, sys
    command = [sys.executable, '-B', 'tools/to_safetensors.py', ours.SCRATCH + '/net.pt2', ours.SCRATCH + '/pt2.safetensors']
    assert 'add --trust' in subprocess.run(command, capture_output=True, text=True).stderr
    subprocess.run([*command, '--trust'], check=True)
    assert ours.told(ours.SCRATCH + '/pt2.safetensors') == WANTED


globals()[ours.TEST]()
