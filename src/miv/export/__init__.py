"""Verifiers for use without PyTorch: ``export_onnx`` writes one file, ``onnx_verifier.py`` alone reads it."""

from miv.export.onnx_file import ExportCheck, export_onnx

__all__ = ["ExportCheck", "export_onnx"]
