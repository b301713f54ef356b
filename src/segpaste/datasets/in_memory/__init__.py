"""Datasets of other libraries as datasets of segpaste, and back, without files: supervision, Datumaro and FiftyOne.

A module for each library has both directions. The library is imported when they are called.
"""
