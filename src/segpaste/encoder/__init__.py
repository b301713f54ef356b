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
    from segpaste.encoder.data.banks import encode_bank as encode_bank
    from segpaste.encoder.data.banks import read_codes as read_codes
    from segpaste.encoder.data.vector_csv import VectorsError as VectorsError
    from segpaste.encoder.data.vectors import LabelledVectors as LabelledVectors
    from segpaste.encoder.data.vectors import read_vectors as read_vectors
    from segpaste.encoder.evaluation.assessment import Assessment as Assessment
    from segpaste.encoder.evaluation.assessment import RatioFigures as RatioFigures
    from segpaste.encoder.evaluation.calibration import Calibration as Calibration
    from segpaste.encoder.evaluation.calibration import cllr as cllr
    from segpaste.encoder.evaluation.calibration import equal_error_rate as equal_error_rate
    from segpaste.encoder.evaluation.calibration import min_cllr as min_cllr
    from segpaste.encoder.evaluation.calibration import min_dcf as min_dcf
    from segpaste.encoder.evaluation.evaluate import Validation as Validation
    from segpaste.encoder.evaluation.evaluate import cosine_rows as cosine_rows
    from segpaste.encoder.evaluation.evaluate import hamming_rows as hamming_rows
    from segpaste.encoder.evaluation.evaluate import mean_average_precision as mean_average_precision
    from segpaste.encoder.evaluation.evaluate import validate as validate
    from segpaste.encoder.evaluation.evidence import AttributeEvidence as AttributeEvidence
    from segpaste.encoder.model.codes import attribute_shares as attribute_shares
    from segpaste.encoder.model.codes import hamming as hamming
    from segpaste.encoder.model.codes import near_duplicate_codes as near_duplicate_codes
    from segpaste.encoder.model.codes import nearest as nearest
    from segpaste.encoder.model.codes import pack as pack
    from segpaste.encoder.model.codes import unpack as unpack
    from segpaste.encoder.model.encoder import BinaryAttributeEncoder as BinaryAttributeEncoder
    from segpaste.encoder.model.encoder import Encoded as Encoded
    from segpaste.encoder.model.encoder import binarise as binarise
    from segpaste.encoder.model.losses import EncoderLosses as EncoderLosses
    from segpaste.encoder.training.checkpoints import CheckpointError as CheckpointError
    from segpaste.encoder.training.checkpoints import TrainedEncoder as TrainedEncoder
    from segpaste.encoder.training.checkpoints import load_encoder as load_encoder
    from segpaste.encoder.training.config import DataConfig as DataConfig
    from segpaste.encoder.training.config import LossWeights as LossWeights
    from segpaste.encoder.training.config import ModelConfig as ModelConfig
    from segpaste.encoder.training.config import TrainConfig as TrainConfig
    from segpaste.encoder.training.config import TrainerConfig as TrainerConfig
    from segpaste.encoder.training.loop import Training as Training
    from segpaste.encoder.training.loop import TrainResult as TrainResult
    from segpaste.encoder.training.run import open_training as open_training
    from segpaste.encoder.training.run import train as train

_HOMES = {
    "segpaste.encoder.data.banks": ("encode_bank", "read_codes"),
    "segpaste.encoder.data.vector_csv": ("VectorsError",),
    "segpaste.encoder.data.vectors": ("LabelledVectors", "read_vectors"),
    "segpaste.encoder.evaluation.assessment": ("Assessment", "RatioFigures"),
    "segpaste.encoder.evaluation.calibration": ("Calibration", "cllr", "equal_error_rate", "min_cllr", "min_dcf"),
    "segpaste.encoder.evaluation.evaluate": (
        "Validation",
        "cosine_rows",
        "hamming_rows",
        "mean_average_precision",
        "validate",
    ),
    "segpaste.encoder.evaluation.evidence": ("AttributeEvidence",),
    "segpaste.encoder.model.codes": (
        "attribute_shares",
        "hamming",
        "near_duplicate_codes",
        "nearest",
        "pack",
        "unpack",
    ),
    "segpaste.encoder.model.encoder": ("BinaryAttributeEncoder", "Encoded", "binarise"),
    "segpaste.encoder.model.losses": ("EncoderLosses",),
    "segpaste.encoder.training.checkpoints": ("CheckpointError", "TrainedEncoder", "load_encoder"),
    "segpaste.encoder.training.config": ("DataConfig", "LossWeights", "ModelConfig", "TrainConfig", "TrainerConfig"),
    "segpaste.encoder.training.loop": ("TrainResult", "Training"),
    "segpaste.encoder.training.run": ("open_training", "train"),
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
