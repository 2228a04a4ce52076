"""03_torchrun_env/train.py with the step schedule of PyTorch's MNIST example, which the program itself leaves out."""
import runpy
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
sys.path.append(str(TOP / "pytorch"))
import twin
from torch.optim.lr_scheduler import StepLR

optim_init = twin.optim_init


def optim_init_with_schedule(args, model):
    """The optimizer, whose rate is 0.7 times as large after each epoch."""
    optim = optim_init(args, model)
    samples = args.batch_size * twin.env_int("WORLD_SIZE")
    schedule = StepLR(optim, step_size=-(-60000 // samples), gamma=0.7)
    optim.register_step_post_hook(lambda *_: schedule.step())
    return optim


twin.optim_init = optim_init_with_schedule
runpy.run_path(str(TOP / "03_torchrun_env/train.py"), run_name="__main__")
