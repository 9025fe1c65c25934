"""Ends that nobody wanted: kill -9 at random moments, a full disk. What was finished can be read."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.recording.room import KEPT, Room
from tests.recording.test_damage import unfinished
from tests.system.scripts import run

# Layers whose numbers tell which they are; big ones and small ones, a batch of texts, and steps of decoding.
WRITING = """
import itertools, sys
import numpy as np
import regard
from regard.recording import recorder as module
module.PATIENCE, module.TOGETHER = 0.002, 4096
print("begun", flush=True)
for number in itertools.count():
    with regard.recording(f"{sys.argv[1]}/{number}", tokens=["a", "b"], sync=False) as recorder:
        for text in range(3):
            for layer in range(4):
                q = np.full((2, 2, 4000 * layer + 4), layer, np.float32)
                recorder.layer(q, q, lse=False)
            q = np.ones((1, 60, 4), np.float32)
            for step in range(60):
                recorder.layer(q[:, step : step + 1], q[:, : step + 1], name="grown", lse=False)
            recorder.text(tokens=["c", "d"])
"""


def test_kill_at_random_moments(tmp_path: Path) -> None:
    rng = random.Random(0)
    chunks = 0
    for number in range(6):
        folder = tmp_path / str(number)
        folder.mkdir()
        process = subprocess.Popen([sys.executable, "-c", WRITING, str(folder)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()  # it has imported all
        time.sleep(rng.uniform(0, 0.15))
        process.kill()
        process.communicate()
        for path in sorted(folder.iterdir(), key=lambda x: int(x.name)):
            names = {x.name for x in path.iterdir()}
            if not {"manifest.jsonl", "tokens.json"} <= names or not (path / "manifest.jsonl").stat().st_size:
                assert not any(name.endswith(".safetensors") for name in names)  # nothing was finished
                continue
            rec = regard.open(path)
            if rec.finished:
                assert rec.verify()
            else:
                unfinished(rec)
            chunks += len(rec.chunks)
            for text in rec.texts:
                assert text.tokens in (None, ("a", "b"), ("c", "d"))
                for layer in text.layers:
                    if layer != "grown":
                        assert float(np.asarray(text[layer].like)[0, 0, 0]) == int(layer)
                    else:
                        assert text[layer].shape[1] == text[layer].shape[2]
    assert chunks > 20


FULL = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
from regard.errors import RecordingError
x, large = np.ones((1, 50, 8), np.float32), np.ones((1, 5000, 32), np.float32)
try:
    with regard.recording(sys.argv[1] if len(sys.argv) > 1 else PATH, sync=True) as recorder:
        recorder.layer(x, x, name="first", lse=False)
        recorder.layer(x, x, name="second", lse=False)
        recorder.layer(large, large, name="large", lse=False)
        for i in range(2000):
            time.sleep(0.001)
            recorder.layer(x, x, name=f"after {i}", lse=False)
    raise SystemExit("nothing was said")
except RecordingError as error:
    assert "(File too large), expected room and permission: the chunks before can be read" in str(error), error
    assert "\\n" not in str(error)
    assert i < 1999
try:
    recorder.layer(x, x)
    raise SystemExit("it went on")
except RecordingError:
    pass
"""


def test_a_full_disk(tmp_path: Path) -> None:
    run(f"PATH = {str(tmp_path / 'r')!r}\n" + FULL)
    rec = regard.open(tmp_path / "r")
    assert rec.layers == ("first", "second")
    unfinished(rec)
    assert not [x for x in (tmp_path / "r").iterdir() if x.name.endswith(".tmp")]


def test_a_full_disk_at_the_end(tmp_path: Path) -> None:
    """What does not fit is told by close, where no call comes after it."""
    run(f"""
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
x = np.ones((1, 5000, 32), np.float32)
recorder = regard.recording({str(tmp_path / "r")!r})
recorder.layer(x, x, lse=False)
try:
    recorder.close()
    raise SystemExit("nothing was said")
except regard.RegardError as error:
    assert "File too large" in str(error)
    assert "nothing of it can be read" in str(error)
""")
    assert len(regard.open(tmp_path / "r")) == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_device_that_is_full(tmp_path: Path) -> None:
    recorder = regard.recording(tmp_path / "r")
    os.close(recorder.writer.manifest)
    recorder.writer.manifest = os.open("/dev/full", os.O_WRONLY)
    recorder.layer(np.ones((1, 4, 4)), np.ones((1, 4, 4)), lse=False)
    with pytest.raises(regard.RegardError, match=r"could not be written to \(No space left on device\)"):
        recorder.close()
    recorder.close()
    assert len(regard.open(tmp_path / "r")) == 0


def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    tmp_path.chmod(0o500)
    with pytest.raises(regard.RegardError, match="Permission denied"):
        regard.recording(tmp_path / "r").__enter__()


def test_ctrl_c_leaves_what_was_finished(tmp_path: Path) -> None:
    code = f"""
import time, sys
import numpy as np, regard
x = np.ones((1, 8, 8), np.float32)
with regard.recording({str(tmp_path / "r")!r}) as recorder:
    recorder.layer(x, x, lse=False)
    print("begun", flush=True)
    time.sleep(20)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode in (-signal.SIGINT, 130)
    assert b"KeyboardInterrupt" in errors
    unfinished(regard.open(tmp_path / "r"))


def test_many_bytes_wait_for_each_other(tmp_path: Path) -> None:
    """The queue is bounded: whoever records faster than the disk writes waits."""
    recorder = regard.recording(tmp_path / "r", sync=False)
    queue = recorder.writer.queue
    queue.room = 1 << 20
    most = 0
    x = np.ones((1, 2000, 64), np.float32)  # half of it
    for _ in range(12):
        recorder.layer(x, x, lse=False)
        most = max(most, queue.held)
    recorder.close()
    assert x.nbytes < most <= 1 << 20
    assert queue.held == 0
    assert len(regard.open(tmp_path / "r")) == 12
    large = np.ones((1, 9000, 64), np.float32)  # larger than all room: it waits alone
    with regard.recording(tmp_path / "s", sync=False) as recorder:
        recorder.writer.queue.room = 1 << 20
        for _ in range(3):
            recorder.layer(large, large, lse=False)
    assert regard.open(tmp_path / "s").verify()


@pytest.mark.parametrize("across", [False, True], ids=["head after head", "row after row"])
def test_the_room_of_what_was_written_is_used_again(tmp_path: Path, across: bool) -> None:
    """And not before: a layer that waits keeps what it has, whatever comes after it."""
    x = np.empty((300, 2, 64) if across else (2, 300, 64), np.float32)
    q = x.swapaxes(0, 1) if across else x
    with regard.recording(tmp_path / "r", sync=False) as recorder:
        for number in range(40):
            x[...] = number
            recorder.layer(q, q[:1, : 300 - number], lse=False)
            if number % 10 == 9:
                recorder.writer.wait()
                kept = len(recorder.room.free)
                assert 1 <= kept <= 2 * 10  # as many as ever waited
                assert not recorder.room.lent
    assert not recorder.room.free
    rec = regard.open(tmp_path / "r")
    assert rec.verify()
    for number in range(40):
        (chunk,) = (x for x in rec.chunks if x.layer == str(number))
        assert all((array == number).all() for name, array in rec.arrays(chunk).items())


def test_room_is_bounded() -> None:
    room = Room()
    copies = [room.copy(np.ones((1 << 20,))) for _ in range(12)]  # 8 MiB each
    room.back(*copies)
    assert sum(x.nbytes for x in room.free) <= KEPT
    small = np.ones(10)
    assert not np.shares_memory(room.copy(small), small)
    room.back(small, None)  # it was not lent
    assert all(x.nbytes == 8 << 20 for x in room.free)
