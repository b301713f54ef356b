"""Binary attribute encoder: embeddings into K bits, trained on class-structured batches.

from segpaste.encoder import TrainConfig, read_vectors, train

vectors = read_vectors("train.csv")
result = train(vectors, read_vectors("test.csv", label_names=vectors.label_names), TrainConfig(), "runs/encoder")
"""

from segpaste.encoder.banks import encode_bank, read_codes
from segpaste.encoder.checkpoints import CheckpointError, TrainedEncoder, load_encoder
from segpaste.encoder.codes import (
    AttributeEvidence,
    attribute_shares,
    hamming,
    near_duplicate_codes,
    nearest,
    pack,
    unpack,
)
from segpaste.encoder.config import DataConfig, LossWeights, ModelConfig, TrainConfig, TrainerConfig
from segpaste.encoder.evaluation import (
    Validation,
    cosine_rows,
    hamming_rows,
    mean_average_precision,
    validate,
)
from segpaste.encoder.losses import EncoderLosses
from segpaste.encoder.model import BinaryAttributeEncoder, Encoded, binarise
from segpaste.encoder.training import Training, TrainResult, open_training, train
from segpaste.encoder.vectors import LabelledVectors, VectorsError, read_vectors

__all__ = [
    "AttributeEvidence",
    "BinaryAttributeEncoder",
    "CheckpointError",
    "DataConfig",
    "Encoded",
    "EncoderLosses",
    "LabelledVectors",
    "LossWeights",
    "ModelConfig",
    "TrainConfig",
    "TrainResult",
    "TrainedEncoder",
    "TrainerConfig",
    "Training",
    "Validation",
    "VectorsError",
    "attribute_shares",
    "binarise",
    "cosine_rows",
    "encode_bank",
    "hamming",
    "hamming_rows",
    "load_encoder",
    "mean_average_precision",
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
