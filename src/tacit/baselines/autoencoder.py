"""Autoencoder: a small code from which the record can be rebuilt. No privacy: the control of the comparisons."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np
import torch
from torch import nn

from tacit.errors import check_number
from tacit.filters.base import Knob, Problem, TrainedFilter, check_training, release_by_folds, training_settings
from tacit.filters.mechanism import Mechanism, NetworkOutput
from tacit.filters.registry import register_filter
from tacit.nets.mlp import mlp
from tacit.training.device import choose_batch_size, choose_device
from tacit.training.loop import Training, descend
from tacit.training.stack import Batches, Stack


@register_filter("autoencoder", examples=[{"n_components": 2, "epochs": 1}])
@dataclass(eq=False, repr=False)
class Autoencoder(TrainedFilter):
    """A bottleneck trained to rebuild the record. It knows of no target and of no sensitive attribute.

    Parameters
    ----------
    n_components : the knob: size of the code
    hidden : widths of the encoder's hidden layers; the decoder mirrors them
    epochs, batch_size, learning_rate : training; batch_size None suits the data
    random_state, device, verbose : as in scikit-learn; device "auto" takes a GPU when there is one
    checkpoint : file that is written after every epoch; a fit that finds it resumes where it stopped

    Attributes
    ----------
    encoder_module_ : the trained encoder
    history_ : list of dicts: epoch and mean squared error (of standardized columns)

    Examples
    --------
    >>> import tacit
    >>> data = tacit.load_dataset("octants", n=400)
    >>> tacit.baselines.Autoencoder(2, epochs=2, random_state=0).fit(data.X).transform(data.X).shape
    (400, 2)
    """

    knob = Knob("n_components", utility_rises=True, values=(1, 2, 4, 8, 16, 32))
    needs_target = False

    n_components: int = 8
    _: KW_ONLY
    hidden: tuple[int, ...] = (128,)

    def _learn(self, problem: Problem) -> Mechanism:
        check_training(self)
        check_number("n_components", self.n_components, 1, whole=True)
        self.encoder_module_, self.history_ = self._train(problem)
        return Mechanism(NetworkOutput(self.encoder_module_, flat=True), self.n_components)

    def _train(self, problem: Problem) -> tuple[nn.Module, list[dict[str, float]]]:
        device = choose_device(self.device)
        flat = problem.X.reshape(len(problem.X), -1)
        width, hidden = flat.shape[1], tuple(self.hidden)

        def make() -> nn.Module:
            encoder, decoder = mlp(width, self.n_components, hidden), mlp(self.n_components, width, hidden[::-1])
            return nn.Sequential(encoder, decoder)

        net = Stack(make, [problem.seed], device)
        X = torch.as_tensor(flat, dtype=torch.float32, device=device)
        adam = torch.optim.Adam(net.parameters(), lr=self.learning_rate)
        batches = Batches(len(flat), choose_batch_size(self.batch_size, len(flat)), [problem.seed])
        settings = training_settings(self, problem)
        with Training({"net": net.learned}, {"adam": adam}, label="autoencoder", **settings) as training:
            for _ in training.epochs(batches.draw, batches.per_epoch):
                total = 0.0
                for _ in range(batches.per_epoch):
                    rows = X[batches.draw().to(device)]
                    loss = (net(rows) - rows).square().mean()
                    descend(adam, loss)
                    total += loss.item() / batches.per_epoch
                training.record(error=total)
        both = net.module(0).double()
        assert isinstance(both, nn.Sequential)
        return both[0], training.history

    def _out_of_fold(self, problem: Problem, drawn: np.ndarray | None) -> np.ndarray:
        learn = lambda part: NetworkOutput(self._train(part)[0], flat=True)  # noqa: E731
        return release_by_folds(problem, learn, like=self.mechanism_.code)
