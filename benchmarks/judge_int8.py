"""The judge in float32, bfloat16 and int8: pairs per processor second on one thread, and what is lost.

    PYTHONPATH=. python benchmarks/judge_int8.py --data DATA --symmetric FILE [--onnx FOLDER] [--out FILE]

DATA and FILE as for benchmarks/judge.py. FOLDER keeps ``judge.onnx`` and ``int8.onnx``, whose linear layers are
quantised by ONNX Runtime (dynamic, per channel). The repeats of all forms take turns.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from numpy.typing import NDArray
from onnxruntime.quantization import QuantType, quantize_dynamic
from scipy.special import softmax
from sklearn.metrics import roc_auc_score
from tools.judge_training import nli_dev, symmetric_dev
from torch import Tensor, nn

from miv.backbones.hf_text import chunks_by_length
from miv.backbones.pairs import SEPARATOR, Judge
from miv.backbones.precision import has_native_bfloat16, lower_precision

Chunks = list[tuple[Tensor, Tensor]]  # rows, and the tokens (u, 3, L) of pairs of similar length


class Logits(nn.Module):
    """Tokens of pairs ``(u, 3, L)`` to logits ``(u, 3)``."""

    def __init__(self, judge: Judge) -> None:
        super().__init__()
        self.judge = judge

    def forward(self, tokens: Tensor) -> Tensor:
        return self.judge.head(self.judge._first_vectors(tokens))


def write_onnx(judge: Judge, example: Tensor, folder: Path) -> None:
    """Write ``judge.onnx`` and ``int8.onnx``."""
    whole, small = folder / "judge.onnx", folder / "int8.onnx"
    shapes = {"tokens": {0: torch.export.Dim("u", min=2), 2: torch.export.Dim("L", min=2, max=128)}}
    torch.onnx.export(
        Logits(judge),
        (example,),
        whole,
        input_names=["tokens"],
        dynamo=True,
        external_data=False,
        dynamic_shapes=shapes,
    )
    model = onnx.load(whole)
    del model.graph.value_info[:]  # shapes that the quantiser infers itself, and does not expect to find
    onnx.save(model, whole)
    quantize_dynamic(
        whole, small, weight_type=QuantType.QInt8, per_channel=True, op_types_to_quantize=["MatMul", "Gemm"]
    )


def by_torch(judge: Judge, chunks: Chunks, logits: NDArray[np.float32], *, low: bool) -> None:
    model = Logits(judge)
    with torch.inference_mode(), lower_precision() if low else nullcontext():
        for rows, tokens in chunks:
            logits[rows] = model(tokens).float()


def by_onnx(path: Path) -> Callable[[Chunks, NDArray[np.float32]], None]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(chunks: Chunks, logits: NDArray[np.float32]) -> None:
        for rows, tokens in chunks:
            logits[rows] = session.run(None, {"tokens": tokens.numpy()})[0]

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--symmetric", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--onnx", type=Path)
    parser.add_argument("--out", type=Path, help="file of rows, which new ones are added to")
    options = parser.parse_args()
    torch.set_num_threads(1)
    judge = Judge().eval()
    symmetric = symmetric_dev(options.symmetric, options.data / "fever-dev")
    nli = nli_dev(options.data / "nli/validation.jsonl.gz", {"snli": 150, "mnli": 150})
    pairs = [
        f"{query}{SEPARATOR}{target}"
        for some in (symmetric, nli)
        for query, target in zip(some.queries, some.targets, strict=True)
    ]
    tokens = judge.prepare(np.array(pairs, dtype=object))
    lengths = tokens[:, 1].sum(dim=1)
    chunks = [(rows, tokens[rows, :, : int(lengths[rows].max())]) for rows in chunks_by_length(lengths)]
    folder = options.onnx or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "int8.onnx").is_file():
        write_onnx(judge, chunks[0][1], folder)
    forms: dict[str, Callable[[Chunks, NDArray[np.float32]], None]] = {
        "torch float32": lambda some, logits: by_torch(judge, some, logits, low=False),
        "ONNX float32": by_onnx(folder / "judge.onnx"),
        "ONNX int8": by_onnx(folder / "int8.onnx"),
    }
    if has_native_bfloat16():
        forms["torch bfloat16"] = lambda some, logits: by_torch(judge, some, logits, low=True)
    speeds: dict[str, list[float]] = {name: [] for name in forms}
    logits = {name: np.zeros((len(pairs), 3), np.float32) for name in forms}
    for _ in range(options.repeats):
        for name, run in forms.items():
            began = time.process_time()
            run(chunks, logits[name])
            speeds[name].append(len(pairs) / (time.process_time() - began))
    rows = []
    for name in forms:
        support = softmax(logits[name], axis=1)[:, 0]
        parts = {"symmetric dev": (symmetric, support[: len(symmetric.queries)])}
        parts["snli and mnli validation"] = (nli, support[len(symmetric.queries) :])
        for title, (some, scores) in parts.items():
            rows.append((title, len(scores), name, "auroc", roc_auc_score(some.supported, scores)))
        rows.append(("speed", len(pairs), name, "pairs_per_processor_s", float(np.median(speeds[name]))))
    lines = [
        json.dumps({"set": title, "n": n, "method": f"judge, {name}", "figure": figure, "value": round(value, 4)})
        for title, n, name, figure, value in rows
    ]
    print("\n".join(lines))
    if options.out:
        with options.out.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    main()
