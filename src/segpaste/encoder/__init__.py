"""Binary attribute encoder: it encodes embeddings as K bits, and is trained on class-structured batches.

from segpaste.encoder import TrainConfig, read_vectors, train

train_set = read_vectors("train.csv")
validation_set = read_vectors("validation.csv", label_names=train_set.label_names)
result = train(train_set, validation_set, TrainConfig(), "runs/encoder")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segpaste._lazy import lazy_names

if TYPE_CHECKING:
    from segpaste.encoder.attribute_terms import AttributeTerms as AttributeTerms
    from segpaste.encoder.calibration import Calibration as Calibration
    from segpaste.encoder.calibration import cllr as cllr
    from segpaste.encoder.calibration import det_curve as det_curve
    from segpaste.encoder.calibration import equal_error_rate as equal_error_rate
    from segpaste.encoder.calibration import min_cllr as min_cllr
    from segpaste.encoder.calibration import min_dcf as min_dcf
    from segpaste.encoder.checkpoints import CheckpointError as CheckpointError
    from segpaste.encoder.checkpoints import TrainedEncoder as TrainedEncoder
    from segpaste.encoder.checkpoints import load_encoder as load_encoder
    from segpaste.encoder.codes import attribute_shares as attribute_shares
    from segpaste.encoder.codes import hamming as hamming
    from segpaste.encoder.codes import near_duplicate_codes as near_duplicate_codes
    from segpaste.encoder.codes import nearest as nearest
    from segpaste.encoder.codes import pack as pack
    from segpaste.encoder.codes import unpack as unpack
    from segpaste.encoder.config import DataConfig as DataConfig
    from segpaste.encoder.config import LossWeights as LossWeights
    from segpaste.encoder.config import ModelConfig as ModelConfig
    from segpaste.encoder.config import TrainConfig as TrainConfig
    from segpaste.encoder.config import TrainerConfig as TrainerConfig
    from segpaste.encoder.evaluation import Assessment as Assessment
    from segpaste.encoder.evaluation import RatioFigures as RatioFigures
    from segpaste.encoder.evaluation import Validation as Validation
    from segpaste.encoder.evaluation import cosine_rows as cosine_rows
    from segpaste.encoder.evaluation import hamming_rows as hamming_rows
    from segpaste.encoder.evaluation import mean_average_precision as mean_average_precision
    from segpaste.encoder.evaluation import validate as validate
    from segpaste.encoder.evidence import AttributeEvidence as AttributeEvidence
    from segpaste.encoder.model import BinaryAttributeEncoder as BinaryAttributeEncoder
    from segpaste.encoder.model import Encoded as Encoded
    from segpaste.encoder.model import EncoderLosses as EncoderLosses
    from segpaste.encoder.model import binarise as binarise
    from segpaste.encoder.training import Training as Training
    from segpaste.encoder.training import TrainResult as TrainResult
    from segpaste.encoder.training import open_training as open_training
    from segpaste.encoder.training import train as train
    from segpaste.encoder.vector_csv import VectorsError as VectorsError
    from segpaste.encoder.vectors import LabelledVectors as LabelledVectors
    from segpaste.encoder.vectors import encode_bank as encode_bank
    from segpaste.encoder.vectors import read_codes as read_codes
    from segpaste.encoder.vectors import read_vectors as read_vectors

_HOMES = {
    "segpaste.encoder.attribute_terms": ("AttributeTerms",),
    "segpaste.encoder.calibration": ("Calibration", "cllr", "det_curve", "equal_error_rate", "min_cllr", "min_dcf"),
    "segpaste.encoder.checkpoints": ("CheckpointError", "TrainedEncoder", "load_encoder"),
    "segpaste.encoder.codes": ("attribute_shares", "hamming", "near_duplicate_codes", "nearest", "pack", "unpack"),
    "segpaste.encoder.config": ("DataConfig", "LossWeights", "ModelConfig", "TrainConfig", "TrainerConfig"),
    "segpaste.encoder.evaluation": (
        "Assessment",
        "RatioFigures",
        "Validation",
        "cosine_rows",
        "hamming_rows",
        "mean_average_precision",
        "validate",
    ),
    "segpaste.encoder.evidence": ("AttributeEvidence",),
    "segpaste.encoder.model": ("BinaryAttributeEncoder", "Encoded", "EncoderLosses", "binarise"),
    "segpaste.encoder.training": ("TrainResult", "Training", "open_training", "train"),
    "segpaste.encoder.vector_csv": ("VectorsError",),
    "segpaste.encoder.vectors": ("LabelledVectors", "encode_bank", "read_codes", "read_vectors"),
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
