"""The CPU backend: C++ in ``src``, built when the package is installed, called through ctypes."""
