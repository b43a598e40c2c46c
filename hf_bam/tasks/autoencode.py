"""Autoencoder of texts: latent variables of a text, and texts from latent variables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..fields import setting
from ..patching.state import find_patches
from ..prediction.bound import measure_bound
from ..prediction.codes import fit_code_prior, generate_from_prior
from . import parallel
from .base import Data, DataError
from .generation import GenerationTask

SENTENCES = 10


@dataclass(frozen=True)
class Autoencode(GenerationTask):
    """Reconstruction of texts from codes or Gaussian variables; then, for codes, a prior of the code sequences.

    Files have one text a line: `train`, `valid` (or `val`, `validation`, `dev`) and maybe `test`.
    """

    text: str = "txt"
    """Ending of the files."""
    prior_epochs: int = setting(10, least=0, most=10**6)
    """Stage two: passes over the codes of the training rows that train their autoregressive prior. 0: no prior."""
    prior_width: int = setting(128, least=4, most=2**13)
    """Stage two: hidden size of the prior."""
    prior_layers: int = setting(2, least=1, most=256)
    """Stage two: number of layers of the prior."""

    default_model: ClassVar[str] = "recurrent"

    @property
    def name(self) -> str:
        return "autoencode"

    @property
    def ending(self) -> str:
        return self.text

    def load(self, data_dir: Path | None) -> Data:
        if data_dir is None:
            raise DataError(f"The task autoencode needs data_dir: a folder with train.{self.text}, valid.{self.text}.")
        return parallel.read_texts(Path(data_dir), self.text)

    def build(self, model: str, data: Data, **settings: Any) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        """Return the model; the decoder of a recurrent one knows the source from its attention alone."""
        own = {"initial_state": "zero"} if model == "recurrent" else {}
        return super().build(model, data, **{**own, **settings})

    def finish(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, data: Data, max_length: int, folder: Path
    ) -> dict[str, dict[str, float]]:
        """Fit the prior of the codes, write sentences from it, and return the bound of every labelled set."""
        codes = any(getattr(patch.config.settings, "latent", None) == "codes" for patch in find_patches(model))
        if codes and not self.prior_epochs:
            return {}
        if codes:
            sizes = {"hidden_size": self.prior_width, "num_layers": self.prior_layers}
            features = self.encode(data.train, tokenizer, max_length)
            fit_code_prior(model, features, num_train_epochs=self.prior_epochs, **sizes)
            texts = generate_from_prior(model, tokenizer, SENTENCES, **self.generation)
            parallel.write_lines(folder / f"from_prior.{self.text}", texts)
        return {name: self._bound(model, tokenizer, rows, max_length) for name, rows in data.evaluation.items()}

    def _bound(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Dataset, max_length: int
    ) -> dict[str, float]:
        found = measure_bound(model, list(self.encode(rows, tokenizer, max_length)))
        return {
            "reconstruction": found.reconstruction,
            "kl": found.kl,
            "bound": found.bound,
            "perplexity": found.perplexity,
            "reconstruction_perplexity": found.reconstruction_perplexity,
        }
