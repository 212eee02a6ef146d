"""The version of the package: that of the program (`project` in CMakeLists.txt)."""

__version__ = "0.1.1"
