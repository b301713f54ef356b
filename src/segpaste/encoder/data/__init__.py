"""Vectors with labels: from CSV files and banks, alone and in pairs."""
