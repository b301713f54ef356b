"""Embeddings of crops: how they are made, stored and compared."""
