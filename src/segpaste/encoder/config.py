"""Configuration of a training: frozen pydantic models that reject unknown keys."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from segpaste.encoder.model import LossName
from segpaste.samplers import NxMSampler


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DataConfig(_Config):
    """Configuration of the batches and of the columns of a CSV.

    Attributes:
        sampler: import path of a subclass of `segpaste.samplers.NxMSampler`.
        N_classes_per_batch: number of distinct classes in a batch.
        M_samples_per_class: number of samples of each class in a batch.
        shuffle, drop_last: see `segpaste.samplers.NxMSampler`.
        label_column, path_column, embedding_prefix, utt2spk: see `segpaste.encoder.read_vectors`.
    """

    sampler: str = "segpaste.samplers.RandomNxMSampler"
    N_classes_per_batch: int = Field(default=8, ge=1, le=1 << 20)
    M_samples_per_class: int = Field(default=4, ge=1, le=1 << 20)
    shuffle: bool = True
    drop_last: bool = True
    label_column: str = "label"
    path_column: str = "path"
    embedding_prefix: str = "embedding_"
    utt2spk: str | None = None

    @field_validator("sampler")
    @classmethod
    def _check_sampler(cls, value: str) -> str:
        find_sampler(value)
        return value


class ModelConfig(_Config):
    """Configuration of the encoder.

    Attributes:
        num_attributes: number of bits of a code, K.
        hidden: number of units in each hidden layer.
    """

    num_attributes: int = Field(default=128, ge=1, le=65536)
    hidden: int = Field(default=256, ge=1, le=65536)


class LossWeights(_Config):
    """Weight of each loss, if it is in ``trainer.losses``."""

    mse: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    triplet: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    sparsity: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    angular_margin: float = Field(default=1.0, ge=0, allow_inf_nan=False)


class TrainerConfig(_Config):
    """Configuration of the losses and of the optimisation.

    Attributes:
        losses: names of the losses, see `segpaste.encoder.model`.
        loss_weights: weights of the losses in their sum.
        sparsity_target: share of samples that should have an attribute.
        triplet_margin: margin between distances to other classes and to the same class, as a share of the attributes.
        epochs: total number of epochs of the sampler.
        learning_rate, weight_decay: parameters of AdamW.
        seed: seed of the initial parameters and of the batches.
        device: ``auto`` is CUDA if available, else the CPU.
        backend: backend for several processes; ``auto`` is nccl on CUDA, else gloo.
        log: ``log.csv``, TensorBoard's files in ``tensorboard/``, or both.
    """

    losses: tuple[LossName, ...] = Field(default=("mse", "triplet"), min_length=1)
    loss_weights: LossWeights = LossWeights()
    sparsity_target: float = Field(default=0.2, ge=0, le=1)
    triplet_margin: float = Field(default=0.2, ge=0, le=1)
    epochs: int = Field(default=100, ge=1)
    learning_rate: float = Field(default=1e-3, gt=0, le=1e30)
    weight_decay: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    seed: int = Field(default=0, ge=0, lt=1 << 64, strict=True)
    device: Literal["auto", "cpu", "cuda"] = "auto"
    backend: Literal["auto", "gloo", "nccl"] = "auto"
    log: Literal["csv", "tensorboard", "both"] = "csv"

    @field_validator("losses")
    @classmethod
    def _check_losses(cls, value: tuple[LossName, ...]) -> tuple[LossName, ...]:
        if len(set(value)) != len(value):
            raise ValueError(f"expected each loss once, got {', '.join(value)}")
        return value


class TrainConfig(_Config):
    """Configuration of a training.

    Attributes:
        data: batches and files.
        model: encoder.
        trainer: losses and optimisation.
    """

    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    trainer: TrainerConfig = TrainerConfig()

    @model_validator(mode="after")
    def _check_triplets(self) -> Self:
        least = min(self.data.N_classes_per_batch, self.data.M_samples_per_class)
        if "triplet" in self.trainer.losses and least < 2:
            raise ValueError(
                "trainer.losses: expected at least 2 classes in a batch and 2 samples of each for triplets, got "
                f"data.N_classes_per_batch={self.data.N_classes_per_batch} and "
                f"data.M_samples_per_class={self.data.M_samples_per_class}"
            )
        return self

    def fingerprint(self) -> dict[str, Any]:
        """Return all values that affect the parameters, except data and machine, as JSON values by dotted keys."""
        of_data, of_machine = {"label_column", "path_column", "embedding_prefix", "utt2spk"}, {"device", "backend"}
        without = {"data": of_data, "trainer": {"epochs", "log"} | of_machine}
        found: dict[str, Any] = {}
        for group, values in self.model_dump(mode="json", exclude=without).items():
            for key, value in values.items():
                nested = value if isinstance(value, dict) else {"": value}
                found |= {f"{group}.{key}.{name}".rstrip("."): part for name, part in nested.items()}
        return found


def find_sampler(path: str) -> type[NxMSampler]:
    """Import the class of a sampler.

    Raises:
        ValueError: there is no such class, or it is not a sampler of N x M batches.
    """
    module, _, name = path.rpartition(".")
    try:
        found = getattr(import_module(module), name) if module else None
    except (Exception, SystemExit) as error:  # the import of a file of the user may raise any error
        reason = f"{path!r} ({type(error).__name__}: {error})"
    else:
        if isinstance(found, type) and issubclass(found, NxMSampler) and hasattr(found, "exhaustive"):
            return found
        reason = f"{path!r}, which is none"
    raise ValueError(
        f"expected the path of a sampler of N x M batches, such as segpaste.samplers.ExhaustiveNxMSampler, got {reason}"
    )
