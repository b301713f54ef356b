"""Version of the package, for modules that may not import the package itself."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("segpaste")
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = "0+unknown"
