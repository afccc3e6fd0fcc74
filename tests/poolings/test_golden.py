"""Weights and outputs of the authors' own layers, run through ours: logits and attention within 1e-5.

``MIV_GOLDEN_DIR`` names another folder of files of the same form.
"""

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import miv

FOLDER = Path(os.environ.get("MIV_GOLDEN_DIR", Path(__file__).parents[1] / "golden"))
FILES = sorted(FOLDER.glob("*.npz"))
Arrays = dict[str, NDArray[Any]]

# The authors' names of layers and weights, and ours.
CAP_WEIGHTS = {
    r"embed_preattn_linear\.linear_weights": "project.weight",
    r"embed_preattn_linear\.linear_bias": "project.bias",
    r"embed_meanse\.interim_weight": "gate.squeeze.weight",
    r"embed_meanse\.interim_bias": "gate.squeeze.bias",
    r"embed_meanse\.sigmoid_weight": "gate.excite.weight",
    r"embed_meanse\.sigmoid_bias": "gate.excite.bias",
    r"embed_stdse\.interim_weight": "delta.squeeze.weight",
    r"embed_stdse\.interim_bias": "delta.squeeze.bias",
    r"embed_stdse\.sigmoid_weight": "delta.excite.weight",
    r"embed_stdse\.sigmoid_bias": "delta.excite.bias",
    r"mcad_pool\.linear_bias": "distance_weight",
    r"postmse_ln\.ln_gamma": "pre_norm.weight",
    r"postmse_ln\.ln_beta": "pre_norm.bias",
    r"postaggr_ln\.gamma": "post_norm.weight",
    r"postaggr_ln\.beta": "post_norm.bias",
}
SHARED_WEIGHTS = {
    r"embed_(preattn_|preencoder_)?ln\.gamma": "norm.weight",
    r"embed_(preattn_|preencoder_)?ln\.beta": "norm.bias",
    r"sim_pool\.sim_weight": "similarity.weight",
}
GABMIL_WEIGHTS = {
    r"attn_scores\.V": "content.weight",
    r"attn_scores\.U": "gate.weight",
    r"attn_scores\.w": "score.weight",
}
PMA_LAYERS = {
    "dense": "row_wise.0",
    "dense_1": "row_wise.2",
    "masked_mh_linear": "to_key",
    "masked_mh_linear_1": "to_value",
    "masked_mh_linear_2": "to_query",
    "masked_mh_linear_3": "to_output",
    "dense_2": "feed_forward.0",
    "dense_3": "feed_forward.2",
}
PMA_WEIGHTS = {
    **{rf"{layer}\.(kernel|linear_weights)": f"{ours}.weight" for layer, ours in PMA_LAYERS.items()},
    **{rf"{layer}\.(bias|linear_bias)": f"{ours}.bias" for layer, ours in PMA_LAYERS.items()},
    r"layer_normalization\.gamma": "attention_norm.weight",
    r"layer_normalization\.beta": "attention_norm.bias",
    r"mab0\.gamma": "output_norm.weight",
    r"mab0\.beta": "output_norm.bias",
    r"embedding\.embeddings": "seed",
}
MSA_LAYERS = {
    r"self_attention\.query": "to_query",
    r"self_attention\.key": "to_key",
    r"self_attention\.value": "to_value",
    r"self_attention\.attention_output": "to_output",
    "intermediate": "widen",
    "output": "narrow",
}
MSA_WEIGHTS = {
    **{rf".*\.layer_(\d)\.{a}\.kernel": rf"layers.\1.{b}.weight" for a, b in MSA_LAYERS.items()},
    **{rf".*\.layer_(\d)\.{a}\.bias": rf"layers.\1.{b}.bias" for a, b in MSA_LAYERS.items()},
    r".*\.layer_(\d)\.self_attention_layer_norm\.gamma": r"layers.\1.attention_norm.weight",
    r".*\.layer_(\d)\.self_attention_layer_norm\.beta": r"layers.\1.attention_norm.bias",
    r".*\.layer_(\d)\.output_layer_norm\.gamma": r"layers.\1.output_norm.weight",
    r".*\.layer_(\d)\.output_layer_norm\.beta": r"layers.\1.output_norm.bias",
    r"embedding\.embeddings": "cls",
}


def model_of(name: str, arrays: Arrays) -> tuple[str, dict[str, Any], dict[str, str]]:
    """The pooling, its options and its weight names, read off the file's name and what is in it."""
    weights = strip(arrays, "weight/")
    if name.startswith("pma"):
        heads = weights["masked_mh_linear.linear_weights"].shape[1]
        return "pma", {"heads": heads, "seeds": arrays["out/attention"].shape[1]}, PMA_WEIGHTS
    if name.startswith("msa"):
        query = next(v for k, v in weights.items() if k.endswith("self_attention.query.kernel"))
        return "msa", {"heads": query.shape[1]}, MSA_WEIGHTS
    if name.startswith("gabmil"):
        return "gabmil", {"hidden": weights["attn_scores.V"].shape[1]}, GABMIL_WEIGHTS
    if name.startswith("baseline"):
        return "baseline", {}, {}
    layers = {key.split(".")[0] for key in weights}
    if "embed_stdse" in layers:
        pooling = "cap_vema"
    elif "mcad_pool" in layers:
        pooling = "cap_dba_l2" if "_l2" in name else "cap_dba_l1"
    else:
        pooling = "cap_ma"
    projected = "embed_preattn_linear" in layers
    options: dict[str, Any] = {
        "projection": projected,
        "heads": weights["embed_preattn_linear.linear_weights"].shape[1] if projected else 1,
        "co_excitation": "embed_meanse" in layers,
        "norm": "pre" if "postmse_ln" in layers else "post" if "postaggr_ln" in layers else "none",
    }
    return pooling, options, CAP_WEIGHTS


def our_weights(weights: Arrays, names: dict[str, str]) -> dict[str, torch.Tensor]:
    ours = {}
    for key, value in weights.items():
        name = next(re.sub(pattern, new, key) for pattern, new in names.items() if re.fullmatch(pattern, key))
        if name in ("seed", "cls"):
            value = value[1]  # row 0 is for padding
        elif name.endswith("to_output.weight") and value.ndim == 3:
            value = value.reshape(-1, value.shape[-1]).T  # Keras: (heads, D, C), or (C, 1, C)
        elif name.endswith(".weight") and value.ndim >= 2:
            value = value.reshape(len(value), -1).T  # Keras: x @ kernel
        else:
            value = value.reshape(-1)
        ours[name] = torch.from_numpy(np.ascontiguousarray(value))
    return ours


def strip(arrays: Arrays, prefix: str) -> Arrays:
    return {k.removeprefix(prefix).removesuffix(":0"): v for k, v in arrays.items() if k.startswith(prefix)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_logits_and_attention_equal_the_authors(path: Path) -> None:
    with np.load(path) as file:
        arrays = dict(file)
    name, options, names = model_of(path.stem, arrays)
    query, padded = torch.from_numpy(arrays["query"]), torch.from_numpy(arrays["target"])
    sizes = torch.from_numpy(arrays["sizes"]).long()
    mask = torch.arange(padded.shape[1]) < sizes[:, None]
    bags = miv.Bags.from_padded(padded, mask)

    verifier = miv.Verifier(name, channels=query.shape[1], pooling_options=options, start="paper").eval()
    verifier.pooling.load_state_dict(our_weights(strip(arrays, "weight/"), {**SHARED_WEIGHTS, **names}))
    with torch.no_grad():
        answer = verifier(query, bags)

    outputs = strip(arrays, "out/")
    torch.testing.assert_close(answer.logit, torch.from_numpy(outputs["logit"][:, 0]), atol=1e-5, rtol=0)
    torch.testing.assert_close(answer.probability, torch.from_numpy(outputs["probability"][:, 0]), atol=1e-5, rtol=0)
    expected = outputs.get("attention")
    if name == "pma":
        assert expected is not None
        expected = expected[:, -1]  # the learned seed comes last
    elif name == "gabmil":
        assert expected is not None
        expected = expected.reshape(len(query), 1, -1)
    elif name == "baseline":
        similarity = np.where(mask, outputs["instance_similarity"][:, :, 0], -np.inf)
        maxima = similarity == similarity.max(axis=1, keepdims=True)
        expected = (maxima / maxima.sum(axis=1, keepdims=True))[:, None].astype(np.float32)
    assert (expected is not None) == (answer.attention_by_head is not None)
    if expected is not None and answer.attention_by_head is not None:
        by_instance = torch.from_numpy(expected).transpose(1, 2)[mask]  # (T, h)
        torch.testing.assert_close(answer.attention_by_head, by_instance, atol=1e-5, rtol=0)


def test_every_pooling_of_the_authors_code_has_a_golden_file() -> None:
    assert FILES, f"no .npz file in {FOLDER}"
    tested = set()
    for path in FILES:
        with np.load(path) as file:
            tested.add(model_of(path.stem, dict(file))[0])
    # The authors released no MI-Net and no Bi-LSTM; the plain answer is not theirs.
    assert tested == set(miv.list_poolings()) - {"mi_net", "bi_lstm", "nearest", "maxsim", "cap_tokens"}
