"""Binary attribute encoder: embeddings into K bits, trained on class-structured batches.

from segpaste.encoder import TrainConfig, read_vectors, train

train_set = read_vectors("train.csv")
validation_set = read_vectors("validation.csv", label_names=train_set.label_names)
result = train(train_set, validation_set, TrainConfig(), "runs/encoder")
"""

from segpaste.encoder.data.banks import encode_bank, read_codes
from segpaste.encoder.data.vector_csv import VectorsError
from segpaste.encoder.data.vectors import LabelledVectors, read_vectors
from segpaste.encoder.evaluation.assessment import Assessment, RatioFigures
from segpaste.encoder.evaluation.calibration import Calibration, cllr, equal_error_rate, min_cllr
from segpaste.encoder.evaluation.evaluate import (
    Validation,
    cosine_rows,
    hamming_rows,
    mean_average_precision,
    validate,
)
from segpaste.encoder.evaluation.evidence import AttributeEvidence
from segpaste.encoder.model.codes import (
    attribute_shares,
    hamming,
    near_duplicate_codes,
    nearest,
    pack,
    unpack,
)
from segpaste.encoder.model.encoder import BinaryAttributeEncoder, Encoded, binarise
from segpaste.encoder.model.losses import EncoderLosses
from segpaste.encoder.training.checkpoints import CheckpointError, TrainedEncoder, load_encoder
from segpaste.encoder.training.config import DataConfig, LossWeights, ModelConfig, TrainConfig, TrainerConfig
from segpaste.encoder.training.loop import Training, TrainResult
from segpaste.encoder.training.run import open_training, train

__all__ = [
    "Assessment",
    "AttributeEvidence",
    "BinaryAttributeEncoder",
    "Calibration",
    "CheckpointError",
    "DataConfig",
    "Encoded",
    "EncoderLosses",
    "LabelledVectors",
    "LossWeights",
    "ModelConfig",
    "RatioFigures",
    "TrainConfig",
    "TrainResult",
    "TrainedEncoder",
    "TrainerConfig",
    "Training",
    "Validation",
    "VectorsError",
    "attribute_shares",
    "binarise",
    "cllr",
    "cosine_rows",
    "encode_bank",
    "equal_error_rate",
    "hamming",
    "hamming_rows",
    "load_encoder",
    "mean_average_precision",
    "min_cllr",
    "near_duplicate_codes",
    "nearest",
    "open_training",
    "pack",
    "read_codes",
    "read_vectors",
    "train",
    "unpack",
    "validate",
]
