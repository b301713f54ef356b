"""A OneFormer of random weights, with a tokenizer of the words that its texts have."""

from __future__ import annotations

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from trainer_data import NUM_CLASSES, SIZE

CLASS_NAMES = [f"class{n}" for n in range(NUM_CLASSES)]
NUM_TEXT, NUM_CONTEXT, MAX_LENGTH = 20, 4, 12
_WORDS = [
    "<pad>",
    "<unknown>",
    "<start>",
    *["a", "an", "the", "task", "is", "photo", "with", "panoptic", "semantic", "instance"],
    *CLASS_NAMES,
]
_VOCABULARY = {word: number for number, word in enumerate([*_WORDS, "<end>"])}  # the model finds the end by its number


def tokenizer() -> transformers.PreTrainedTokenizerFast:
    tokens = Tokenizer(models.WordLevel(_VOCABULARY, "<unknown>"))
    tokens.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [(word, _VOCABULARY[word]) for word in ("<start>", "<end>")]
    tokens.post_processor = processors.TemplateProcessing(single="<start> $A <end>", special_tokens=ends)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokens, pad_token="<pad>", unk_token="<unknown>")


def oneformer() -> torch.nn.Module:
    swin = transformers.SwinConfig(
        image_size=SIZE,
        embed_dim=12,
        depths=[1] * 4,
        num_heads=[1] * 4,
        window_size=4,
        out_features=[f"stage{n}" for n in range(1, 5)],
    )
    config = transformers.OneFormerConfig(
        backbone_config=swin,
        is_training=True,
        num_labels=NUM_CLASSES,
        num_queries=NUM_TEXT + NUM_CONTEXT,
        text_encoder_n_ctx=NUM_CONTEXT,
        text_encoder_width=64,
        text_encoder_num_layers=1,
        text_encoder_vocab_size=len(_VOCABULARY),
        text_encoder_context_length=MAX_LENGTH,
        task_seq_len=MAX_LENGTH,
        conv_dim=64,
        mask_dim=64,
        hidden_dim=64,
        encoder_feedforward_dim=32,
        encoder_layers=1,
        decoder_layers=3,
        query_dec_layers=1,
        dim_feedforward=32,
        num_attention_heads=2,
        train_num_points=512,
        dropout=0.0,
    )
    return transformers.OneFormerForUniversalSegmentation(config)
