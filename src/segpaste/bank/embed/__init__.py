"""Embeddings of crops: embedders, copies of banks with embeddings, and similarity."""
