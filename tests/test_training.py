"""Training: the best state is kept, Ctrl-C leaves a usable model, a killed run resumes to the same bits."""

from __future__ import annotations

import inspect
import os
import signal
from multiprocessing import get_context

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from torch import nn

import tacit
from tacit.errors import InputError, TacitWarning
from tacit.filters.base import Filter
from tacit.training.loop import Training


def run(checkpoint=None, stop_after=None, epochs=6, identity="a", with_score=False):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1))
    adam = torch.optim.Adam(net.parameters(), lr=0.01)
    with Training({"net": net}, {"adam": adam}, epochs, 5, checkpoint=checkpoint, identity=identity) as training:
        for epoch in training.epochs():
            net.train()
            order = torch.from_numpy(training.rng.permutation(32))
            x = torch.linspace(-1, 1, 96).reshape(32, 3)[order]
            loss = (net(x) - x[:, :1]).pow(2).mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
            training.record(loss=loss.item(), score=-abs(epoch - 2.0) if with_score else None)
            if epoch == stop_after:
                raise KeyboardInterrupt
    return net, training


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


def test_the_best_state_is_kept_even_when_interrupted():
    at_two, _ = run(epochs=3)
    best, training = run(with_score=True)
    assert same(best, at_two)
    assert training.best_score == 0
    with pytest.warns(TacitWarning, match="the best state so far"):
        stopped, training = run(stop_after=4, with_score=True)
    assert same(stopped, at_two)
    assert training.interrupted
    with pytest.raises(KeyboardInterrupt):
        run(stop_after=0)  # nothing was finished: nothing to keep


def test_other_files_are_refused(tmp_path):
    run(tmp_path / "c", epochs=1)
    with pytest.raises(InputError, match="other settings"):
        run(tmp_path / "c", identity="b")
    (tmp_path / "d").write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match="not a checkpoint"):
        run(tmp_path / "d")


# -- every filter that is trained by epochs ---------------------------------------------------------

SMALL = {"epochs": 4, "batch_size": 32, "random_state": 0, "device": "cpu"}
AAE = tacit.AnonymizingAutoencoder
WINDOWS = {**SMALL, "n_maps": 4, "regularizers": ("dense",), "regularizer_steps": 1}
DEEP = {
    "EIGAN": (tacit.EIGAN(2, noise=0.1, **SMALL), "rows"),
    "CodebookFilter": (tacit.CodebookFilter(4, features="raw", n_folds=2, **SMALL), "rows"),
    "DPFE": (tacit.DPFE(n_components=2, backbone_epochs=2, **SMALL), "rows"),
    "Autoencoder": (tacit.baselines.Autoencoder(2, **SMALL), "rows"),
    "VariationalObfuscator": (tacit.baselines.VariationalObfuscator(**SMALL), "rows"),
    "AnonymizingAutoencoder": (AAE(**WINDOWS), "windows"),
    "AnonymizingAutoencoder, REP": (AAE(**WINDOWS, regularize_output=False), "windows"),
    "AnonymizingAutoencoder, codes": (AAE(codes=4, **WINDOWS), "windows"),
    "TaskMask": (tacit.TaskMask(0.25, **SMALL), "images"),
}
# variants of a filter have its loop: they are killed too when there is time
every_deep_filter = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if ", " in name else []) for name in DEEP]
)
pytestmark = pytest.mark.filterwarnings("ignore:collapsed")


def records(kind, n=80):
    rng = np.random.default_rng(0)
    y, s = rng.integers(2, size=(2, n))
    shape = {"rows": (4,), "windows": (2, 32), "images": (1, 8, 8)}[kind]
    X = rng.standard_normal((n, *shape)) + y.reshape(-1, *[1] * len(shape)) * np.linspace(0, 1, shape[-1])
    return tacit.Dataset(X, pd.DataFrame({"y": y}), pd.DataFrame({"s": s}))


def fit(name, **changes):
    f, kind = DEEP[name]
    data = records(kind)
    return clone(f).set_params(**changes).fit(data.X, data.y, sensitive_features=data.sensitive)


def learned(f):
    """Weights of what is released, and the history."""
    code = f.mechanism_.code
    held = vars(getattr(code, "cells_of", code)).values()
    weights = [p.detach().numpy() for m in held if isinstance(m, nn.Module) for p in m.parameters()]
    assert weights
    return weights, f.history_


def equal(a, b):
    return a[1] == b[1] and all(np.array_equal(x, y) for x, y in zip(a[0], b[0], strict=True))


def stop_at(monkeypatch, epochs):
    """Ctrl-C as soon as so many epochs of a filter's last stage are finished."""
    record = Training.record

    def pressed(self, **told):
        if self._done == epochs and self._label != "network":
            raise KeyboardInterrupt
        record(self, **told)

    monkeypatch.setattr(Training, "record", pressed)


def test_the_list_has_every_filter_that_is_trained_by_epochs():
    found = {n: getattr(m, n) for m in (tacit, tacit.baselines) for n in m.__all__}
    filters = {n: c for n, c in found.items() if inspect.isclass(c) and issubclass(c, Filter)}
    trained = {n: c for n, c in filters.items() if "epochs" in inspect.signature(c).parameters}
    assert set(trained) == {name.split(",")[0] for name in DEEP}
    assert all("checkpoint" in inspect.signature(c).parameters for c in trained.values())
    assert set(filters) > set(trained)  # the control


@every_deep_filter
def test_after_kill_9_a_filter_goes_on_to_the_same_bits(name, tmp_path):
    path = str(tmp_path / "c")

    def train_and_die():
        write = Training._write

        def killed(self, path):
            write(self, path)
            if self._done == 2 and self._label not in ("network", "p(u|x)"):
                os.kill(os.getpid(), signal.SIGKILL)

        Training._write = killed
        fit(name, checkpoint=path)

    child = get_context("fork").Process(target=train_and_die)
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    played, record = [], Training.record

    def count(self, **told):
        played.append(self._label)
        record(self, **told)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Training, "record", count)
        resumed = learned(fit(name, checkpoint=path))
    assert len(played) == 2  # of four: the others were read from the file
    whole = learned(fit(name))
    assert equal(resumed, whole)
    assert not equal(whole, learned(fit(name, random_state=1)))
    with pytest.raises(InputError, match="other settings or other data"):
        fit(name, checkpoint=path, learning_rate=0.5)


@every_deep_filter
def test_ctrl_c_leaves_a_usable_filter_and_its_checkpoint_goes_on(name, tmp_path, monkeypatch):
    path, data = str(tmp_path / "c"), records(DEEP[name][1])
    with monkeypatch.context() as patch:
        stop_at(patch, 2)
        with pytest.warns(TacitWarning, match=r"interrupted after 2 of 4 epochs.*fit again with checkpoint=.*resume"):
            part = fit(name, checkpoint=path)
    assert np.isfinite(part.transform(data.X)).all()
    assert len([line for line in part.history_ if line.get("stage") != "network"]) == 2
    assert equal(learned(fit(name, checkpoint=path)), learned(fit(name)))


def test_a_checkpoint_needs_a_seed_and_follows_what_training_does_not_read(tmp_path):
    with pytest.raises(InputError, match="checkpoint needs random_state"):
        fit("EIGAN", checkpoint=tmp_path / "c", random_state=None)
    a = fit("DPFE", checkpoint=tmp_path / "c", noise_ratio=0.5)
    b = fit("DPFE", checkpoint=tmp_path / "c", noise_ratio=0.1)  # no other training: read from the file
    assert equal(learned(a), learned(b))
