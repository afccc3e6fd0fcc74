"""Verifiers in other libraries: ``export_onnx`` for use without PyTorch, ``miv.interop.sklearn`` for scikit-learn.

``onnx_verifier.py`` alone reads what ``export_onnx`` writes: it needs numpy and onnxruntime, and not miv.
"""

from miv.interop.onnx_export import ExportCheck, export_onnx

__all__ = ["ExportCheck", "export_onnx"]
