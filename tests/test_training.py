"""Training: the best state is kept, Ctrl-C leaves a usable model, a killed run resumes to the same bits."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from killed import train_and_kill
from tacit.errors import InputError, TacitWarning
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


def test_a_resumed_run_ends_with_the_same_bits(tmp_path):
    whole, told = run()
    with pytest.warns(TacitWarning, match="interrupted after 3 of 6 epochs.*go on"):
        part, _ = run(tmp_path / "c", stop_after=3)
    assert not same(part, whole)
    resumed, again = run(tmp_path / "c")
    assert same(resumed, whole)
    assert again.history == told.history


def test_after_kill_9_it_goes_on(tmp_path):
    whole, _ = run()
    train_and_kill("test_training", f"t.run({str(tmp_path / 'c')!r})")
    assert same(run(tmp_path / "c")[0], whole)


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
    with pytest.raises(InputError, match="no checkpoint"):
        run(tmp_path / "d")
