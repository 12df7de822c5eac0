"""Training as real processes: killed, asked to stop, and several at once."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tests.train.world import metrics, same_weights, tiny_dataset

KILLS = 20
SMOKE = ["train", "smoke", "--train.steps", "60", "--journal.checkpoint-every", "3", "--journal.sheet-every", "0"]

FORKING = """
import os, sys
from unlit.cli import main
import unlit.train.loop, unlit.data.dataset, torch
torch.set_num_threads(1)
for line in sys.stdin:  # one run a line, in a child that starts in no time since all is imported
    child = os.fork()
    if child == 0:
        try:
            main(line.split())
        finally:
            os._exit(0)
    print(child, flush=True)
    _, status = os.waitpid(child, 0)
    print(status, flush=True)
"""


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"}


def endless(data: Path, run: Path) -> list[str]:
    """A training that ends only when it is made to, and saves nothing until then."""
    train = f"-m unlit train smoke --data {data} --run {run} --device cpu --train.steps 100000"
    return [sys.executable, *train.split(), "--journal.checkpoint-every", "0", "--journal.sheet-every", "0"]


def lines(run: Path) -> int:
    file = run / "metrics.jsonl"
    return file.read_bytes().count(b"\n") if file.is_file() else 0


def test_a_run_killed_again_and_again_ends_as_if_it_never_was(tmp_path: Path) -> None:
    data, whole, parts = tiny_dataset(tmp_path / "data"), tmp_path / "whole", tmp_path / "parts"
    chance = random.Random(0)
    place = ["--data", str(data), "--device", "cpu", "--quiet", "--run"]
    kills = 0
    with subprocess.Popen(
        [sys.executable, "-c", FORKING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    ) as server:
        assert server.stdin
        assert server.stdout
        done = False
        while not done:
            server.stdin.write(" ".join([*SMOKE, *place, str(parts), "--resume"]) + "\n")
            server.stdin.flush()
            child = int(server.stdout.readline())
            if kills < KILLS:
                # A few steps further, or still among the first things that a run does, or in between.
                wanted, patience = lines(parts) + chance.randint(1, 4), time.monotonic() + 60
                while lines(parts) < wanted and time.monotonic() < patience:
                    time.sleep(0.001)
                time.sleep(chance.random() * 0.03)
                os.kill(child, signal.SIGKILL)
            status = int(server.stdout.readline())
            kills += os.WIFSIGNALED(status)
            done = (parts / "weights.safetensors").is_file()
        server.stdin.write(" ".join([*SMOKE, *place, str(whole)]) + "\n")
        server.stdin.flush()
        server.stdout.readline()
        assert int(server.stdout.readline()) == 0
        server.stdin.close()
    assert kills >= KILLS
    assert metrics(parts) == metrics(whole)
    assert same_weights(parts, whole)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_asked_to_stop_saves_and_leaves_and_goes_on_later(tmp_path: Path, number: signal.Signals) -> None:
    data, run = tiny_dataset(tmp_path / "data"), tmp_path / "run"
    command = endless(data, run)
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        while lines(run) < 3 and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(number)
        _, messages = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "go on with --resume" in messages
    saved = [path.name for path in (run / "checkpoints").iterdir() if path.name.startswith("step-")]
    assert saved == [f"step-{lines(run):08d}"]


def test_a_group_that_is_asked_to_stop_saves_too_while_workers_read(tmp_path: Path) -> None:
    data, run = tiny_dataset(tmp_path / "data"), tmp_path / "run"
    command = [*endless(data, run), "--data.memory-gb", "0", "--data.workers", "2"]
    with subprocess.Popen(
        command, env=environment(), stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        while lines(run) < 3 and process.poll() is None:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGTERM)
        _, messages = process.communicate(timeout=60)
    assert "go on with --resume" in messages
    assert [path.name for path in (run / "checkpoints").glob("step-*")] == [f"step-{lines(run):08d}"]


GRADIENTS = """
import os
import sys
from dataclasses import replace
from pathlib import Path
import torch
from unlit.data.dataset import open_dataset
from unlit.recipes import smoke
from unlit.train import learner, loop

def keep(self, step):
    grads = {name: p.grad for name, p in self.network.named_parameters()}
    torch.save(grads, f"{sys.argv[2]}.{os.environ.get('RANK', 0)}")
    return update(self, step)

update = learner.Learner.update
learner.Learner.update = keep
config = smoke()
train = replace(config.train, steps=1, passes=int(sys.argv[3]), clip=0.0)
loop.fit(replace(config, train=train), open_dataset(sys.argv[1]), sys.argv[2], device="cpu", quiet=True)
"""


def gradients(tmp_path: Path, name: str, processes: int) -> list[dict[str, torch.Tensor]]:
    """Return the gradients that each process has after one step over two batches."""
    script = tmp_path / "gradients.py"
    script.write_text(GRADIENTS)
    arguments = [str(script), str(tmp_path / "data"), str(tmp_path / name), str(2 // processes)]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environments = [environment()]
    if processes > 1:
        shared = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        environments = [{**environment(), **shared, "RANK": str(k), "LOCAL_RANK": str(k)} for k in range(processes)]
    started = [subprocess.Popen([sys.executable, *arguments], env=e) for e in environments]
    assert [process.wait(timeout=120) for process in started] == [0] * processes
    return [torch.load(f"{tmp_path / name}.{k}", weights_only=True) for k in range(processes)]


def test_two_processes_have_the_gradients_of_one_over_the_same_sequences(tmp_path: Path) -> None:
    tiny_dataset(tmp_path / "data", 4)
    (alone,), (first, second) = gradients(tmp_path, "alone", 1), gradients(tmp_path, "both", 2)
    for name, gradient in alone.items():
        torch.testing.assert_close(first[name], gradient, rtol=1e-5, atol=1e-5 * float(gradient.abs().max()))
        assert torch.equal(first[name], second[name])


def test_torchrun_trains_and_one_process_goes_on_with_as_many_passes(tmp_path: Path) -> None:
    data, run = tiny_dataset(tmp_path / "data", 4), tmp_path / "run"
    train = ["unlit", "train", "smoke", "--data", str(data), "--device", "cpu", "--quiet", "--run", str(run)]
    train += ["--train.steps", "4", "--journal.checkpoint-every", "2", "--journal.keep", "3"]
    torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "--", *train]
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", *torchrun], check=True, env=environ, timeout=120)
    before = metrics(run)
    assert [line["step"] for line in before if "total" in line] == [1, 2, 3, 4]
    shutil.rmtree(run / "checkpoints" / "step-00000004")
    alone = [sys.executable, "-m", *train, "--resume"]
    refused = subprocess.run(
        alone, env=environment(), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert refused.returncode == 2
    assert "2 passes a step" in refused.stderr
    subprocess.run([*alone, "--train.passes", "2"], env=environment(), timeout=120, check=True)
    for line, earlier in zip(metrics(run), before, strict=True):
        assert line["total"] == pytest.approx(earlier["total"], rel=1e-4)
