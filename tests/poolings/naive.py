"""The poolings once more, from the paper's equations, one exemplar and one instance at a time, in plain numpy.

Nothing of the package is used, so an error there cannot hide here. Each function takes the weights by name, the
options, one query ``(C,)`` and one bag ``(N, C)`` after the first norm, and gives ``v_Q``, ``v_P`` and attention
``[instance][head]`` or None. Which start a verifier has is read off the names of its weights.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Weights = dict[str, Array]
Result = tuple[Array, Array, list[list[float]] | None]


def linear(w: Weights, name: str, x: Array) -> Array:
    y = w[f"{name}.weight"] @ x
    return y + w[f"{name}.bias"] if f"{name}.bias" in w else y


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def layer_norm(w: Weights, name: str, x: Array, eps: float) -> Array:
    return (x - x.mean()) / math.sqrt(x.var() + eps) * w[f"{name}.weight"] + w[f"{name}.bias"]


def unit(x: Array) -> Array:
    return x / max(math.sqrt(sum(x**2)), 1e-6)


def first_norm(w: Weights, x: Array) -> Array:
    """The paper's LayerNorm, or with ``start="similar"`` a direction of length √C."""
    if "norm.weight" not in w:  # maxsim uses features as they are
        return x
    if "norm.map" not in w:
        return layer_norm(w, "norm", x, 1e-3)
    if "tokens.scale" in w:  # cap_tokens: a vector, then tokens; the vector alone is also its only token
        vector = len(w["norm.centre"])
        rest = x[vector:] if len(x) > vector else x
        return np.concatenate([first_norm({k: v for k, v in w.items() if k != "tokens.scale"}, x[:vector]), rest])
    centred = unit(x) - w["norm.centre"]
    mapped = np.array([sum(row * centred) for row in w["norm.map"]])
    return math.sqrt(len(x)) * unit(mapped) * w["norm.weight"] + w["norm.bias"]


def similarity(w: Weights, query: Array, bag: Array, options: dict[str, Any]) -> float:
    """Equation 7; with ``start="similar"``, also distances and a term of the query, as a mean over the channels."""
    if "similarity.share" in w:  # cap_tokens: the last channels are 1 and the best match
        rest = {key: value for key, value in w.items() if key != "similarity.share"}
        matched = float(w["similarity.share"] * w["similarity.scale"] * query[-1] * bag[-1])
        return similarity(rest, query[:-1], bag[:-1], options) + matched
    if "similarity.weight" not in w:
        return token_similarity(w, query, bag, options)
    product = float(sum(w["similarity.weight"] * query * bag))
    if "similarity.scale" not in w:
        return product
    distance = float(sum(w["similarity.distance"] * abs(query - bag) - w["similarity.prior"] * query))
    return float(w["similarity.scale"]) * (product - distance) / len(query) + float(w["similarity.intercept"])


def token_similarity(w: Weights, query: Array, target: Array, options: dict[str, Any]) -> float:
    """How much of the query the target matches, tokens weighted by length, shifted by what both are about."""
    width = options.get("width", len(query))
    asked, told = ([x[start : start + width] for start in range(0, len(x), width)] for x in (query, target))
    lengths, others = ([math.sqrt(sum(token**2)) for token in tokens] for tokens in (asked, told))
    best = [max(0.0, *(float(sum(unit(token) * unit(other))) for other in told)) for token in asked]
    found = float(w["similarity.scale"]) * sum(n * b for n, b in zip(lengths, best, strict=True)) / sum(lengths)
    found += float(sum(w["similarity.query_offset"] * sum(asked))) / sum(lengths)
    found += float(sum(w["similarity.target_offset"] * sum(told))) / sum(others)
    return found + float(w["similarity.intercept"])


def softmax(scores: list[float]) -> list[float]:
    exponentials = [math.exp(s - max(scores)) for s in scores]
    return [e / sum(exponentials) for e in exponentials]


def weighted(weights: list[float], rows: list[Array]) -> Array:
    return sum((a * row for a, row in zip(weights, rows, strict=True)), np.zeros_like(rows[0]))


def baseline(w: Weights, options: dict[str, Any], query: Array, bag: Array) -> Result:
    similarities = [similarity(w, query, target, options) for target in bag]
    best = [s == max(similarities) for s in similarities]
    attention = [b / sum(best) for b in best]
    return query, weighted(attention, list(bag)), [[a] for a in attention]


def nearest(w: Weights, options: dict[str, Any], query: Array, bag: Array) -> Result:
    cosines = [float(sum(query * target)) / len(query) for target in bag]
    chosen = [target for target, cosine in zip(bag, cosines, strict=True) if cosine == max(cosines)]
    return query, sum(chosen, np.zeros_like(query)) / len(chosen), [[a] for a in softmax([20 * c for c in cosines])]


def maxsim(w: Weights, options: dict[str, Any], query: Array, bag: Array) -> Result:
    scores = [token_similarity(w, query, target, options) for target in bag]
    return query, bag[scores.index(max(scores))], [[a] for a in softmax(scores)]


def gabmil(w: Weights, options: dict[str, Any], query: Array, bag: Array) -> Result:
    scores = [
        float(w["score.weight"][0] @ (np.tanh(w["content.weight"] @ t) * sigmoid(w["gate.weight"] @ t))) for t in bag
    ]
    attention = softmax(scores)
    return query, weighted(attention, list(bag)), [[a] for a in attention]


def pma(w: Weights, options: dict[str, Any], query: Array, bag: Array) -> Result:
    def row_wise(name: str, x: Array) -> Array:
        return linear(w, f"{name}.2", np.maximum(linear(w, f"{name}.0", x), 0))

    def attend(seed: Array) -> tuple[Array, list[list[float]]]:
        q = linear(w, "to_query", seed)
        size = len(q) // heads
        outputs, by_head = [], []
        for j in range(heads):
            part = slice(j * size, (j + 1) * size)
            attention = softmax([float(q[part] @ linear(w, "to_key", t)[part]) / math.sqrt(size) for t in targets])
            outputs.append(weighted(attention, [linear(w, "to_value", t)[part] for t in targets]))
            by_head.append(attention)
        hidden = layer_norm(w, "attention_norm", seed + linear(w, "to_output", np.concatenate(outputs)), 1e-3)
        return layer_norm(w, "output_norm", hidden + row_wise("feed_forward", hidden), 1e-3), by_head

    heads = options.get("heads", 2)
    query = row_wise("row_wise", query)
    targets = [row_wise("row_wise", t) for t in bag]
    bag_vector, by_head = attend(first_norm(w, w["seed"]))
    query_vector = attend(query)[0] if options.get("seeds", 2) == 2 else query
    return query_vector, bag_vector, [list(row) for row in zip(*by_head, strict=True)]


def msa(w: Weights, options: dict[str, Any], query: Array, bag: Array) -> Result:
    def encode(rows: list[Array], name: str) -> list[Array]:
        size = len(rows[0]) // heads
        outputs = []
        for row in rows:
            parts = []
            for j in range(heads):
                part = slice(j * size, (j + 1) * size)
                q = linear(w, f"{name}.to_query", row)[part]
                scores = [float(q @ linear(w, f"{name}.to_key", r)[part]) / math.sqrt(size) for r in rows]
                parts.append(weighted(softmax(scores), [linear(w, f"{name}.to_value", r)[part] for r in rows]))
            attended = linear(w, f"{name}.to_output", np.concatenate(parts))
            hidden = layer_norm(w, f"{name}.attention_norm", row + attended, 1e-12)
            wide = linear(w, f"{name}.widen", hidden)
            gelu = 0.5 * wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
            outputs.append(layer_norm(w, f"{name}.output_norm", hidden + linear(w, f"{name}.narrow", gelu), 1e-12))
        return outputs

    def first_output(first: Array) -> Array:
        rows = [first, *bag]
        for layer in range(options.get("layers", 2)):
            rows = encode(rows, f"layers.{layer}")
        return rows[0]

    heads = options.get("heads", 2)
    return first_output(query), first_output(first_norm(w, w["cls"])), None


def mi_net(w: Weights, options: dict[str, Any], query: Array, bag: Array) -> Result:
    embedded = []
    for target in bag:
        for layer in range(len(options.get("hidden", (256, 128, 64)))):
            target = np.maximum(linear(w, f"embed.{2 * layer}", target), 0)
        embedded.append(target)
    columns = np.array(embedded).T
    pooled = {
        "max": [max(column) for column in columns],
        "mean": [sum(column) / len(column) for column in columns],
        "lse": [math.log(sum(math.exp(x) for x in column) / len(column)) for column in columns],
    }[options.get("pool", "max")]
    return query, linear(w, "to_output", np.array(pooled)), None


def bi_lstm(w: Weights, options: dict[str, Any], query: Array, bag: Array) -> Result:
    def last_state(rows: list[Array], suffix: str) -> Array:
        size = w["lstm.weight_hh_l0"].shape[1]
        state, cell = np.zeros(size), np.zeros(size)
        for row in rows:
            gates = w[f"lstm.weight_ih_l0{suffix}"] @ row + w[f"lstm.bias_ih_l0{suffix}"]
            gates = gates + w[f"lstm.weight_hh_l0{suffix}"] @ state + w[f"lstm.bias_hh_l0{suffix}"]
            i, f, g, o = (gates[n * size : (n + 1) * size] for n in range(4))
            cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
            state = sigmoid(o) * np.tanh(cell)
        return state

    states = np.concatenate([last_state(list(bag), ""), last_state(list(bag)[::-1], "_reverse")])
    return query, linear(w, "to_output", states), None


def cap(score: Callable[[Weights, Array, Array, slice, Array], float]) -> Callable[..., Result]:
    """Equation 8, for a ``score(weights, projected query, projected target, channels of the head, bag)``."""

    def pool(w: Weights, options: dict[str, Any], query: Array, bag: Array) -> Result:
        heads = options.get("heads", 2)
        size = len(query) // heads
        norm = options.get("norm", "pre")

        def project(x: Array) -> Array:
            return linear(w, "project", x) if options.get("projection", True) else x

        gate = np.ones(len(query))
        if options.get("co_excitation", True):
            source = query if options.get("gate_reads", "query") == "query" else project(query)
            gate = sigmoid(linear(w, "gate.excite", np.maximum(linear(w, "gate.squeeze", source), 0)))

        def value(x: Array, part: slice) -> Array:
            gated = (project(x) * gate)[part]
            if norm != "pre":
                return gated
            normed = (gated - gated.mean()) / math.sqrt(gated.var() + 1e-12)
            return normed * w["pre_norm.weight"][part] + w["pre_norm.bias"][part]

        queries, bags, by_head = [], [], []
        for j in range(heads):
            part = slice(j * size, (j + 1) * size)
            sharpness = float(w["sharpness"][j]) if "sharpness" in w else 1.0
            scores = [sharpness * score(w, project(query), project(t), part, bag) for t in bag]
            attention = softmax(scores)
            bags.append(weighted(attention, [value(t, part) for t in bag]))
            queries.append(value(query, part))
            by_head.append(attention)
        twins = [np.concatenate(queries), np.concatenate(bags)]
        if norm == "post":
            twins = [layer_norm(w, "post_norm", twin, 1e-3) for twin in twins]
        return twins[0], twins[1], [list(row) for row in zip(*by_head, strict=True)]

    return pool


def vema_score(w: Weights, query: Array, target: Array, part: slice, bag: Array) -> float:
    variance = sum((row - bag.mean(axis=0)) ** 2 for row in bag) / len(bag)
    delta = sigmoid(linear(w, "delta.excite", np.maximum(linear(w, "delta.squeeze", variance - 1), 0)))
    return float(sum(query[part] * delta[part] * target[part])) / math.sqrt(len(query[part]))


def ma_score(w: Weights, query: Array, target: Array, part: slice, bag: Array) -> float:
    return float(query[part] @ target[part]) / math.sqrt(len(query[part]))


def l1_score(w: Weights, query: Array, target: Array, part: slice, bag: Array) -> float:
    size = len(query[part])
    distance = float(sum(w["distance_weight"][part] * abs(query[part] - target[part])))
    return (math.sqrt(4 / math.pi) * size - distance) / math.sqrt((2 - 4 / math.pi) * size)


def l2_score(w: Weights, query: Array, target: Array, part: slice, bag: Array) -> float:
    size = len(query[part])
    distance = float(sum(w["distance_weight"][part] * (query[part] - target[part]) ** 2))
    return (2 * size - distance) / math.sqrt(8 * size)


def cap_tokens(w: Weights, options: dict[str, Any], query: Array, bag: Array) -> Result:
    """A vector and tokens: CAP by distance, whose scores and logit count the similarity of the tokens too."""
    vector = len(w["norm.centre"])
    of_tokens = {key.replace("tokens.", "similarity."): value for key, value in w.items() if key.startswith("tokens.")}
    match = [token_similarity(of_tokens, query[vector:], target[vector:], options) for target in bag]
    query = query[:vector] * w["gain"] + w["bias"]
    bag = np.array([target[:vector] * w["gain"] + w["bias"] for target in bag])
    heads = options.get("heads", 1)
    spread = math.sqrt(vector / heads / 2)
    inner = {key.removeprefix("cap."): value for key, value in w.items() if key.startswith("cap.")}
    project = {tuple(linear(inner, "project", target)): m for target, m in zip(bag, match, strict=True)}
    scores: dict[tuple[float, ...], list[float]] = {key: [] for key in project}

    def score(inside: Weights, asked: Array, target: Array, part: slice, all_targets: Array) -> float:
        found = l2_score(inside, asked, target, part, all_targets)
        found += float(w["share"]) * spread * project[tuple(target)]
        scores[tuple(target)].append(found)
        return found

    pooled = cap(score)(inner, {"heads": heads}, query, bag)
    each = [sum(scores[tuple(linear(inner, "project", t))][:heads]) / heads for t in bag]
    attention = softmax([8 * one / spread for one in each])
    return np.append(pooled[0], 1.0), np.append(pooled[1], max(match)), [[a] for a in attention]


POOLINGS: dict[str, Callable[..., Result]] = {
    "baseline": baseline,
    "gabmil": gabmil,
    "pma": pma,
    "msa": msa,
    "mi_net": mi_net,
    "bi_lstm": bi_lstm,
    "cap_vema": cap(vema_score),
    "cap_dba_l1": cap(l1_score),
    "cap_dba_l2": cap(l2_score),
    "cap_ma": cap(ma_score),
    "nearest": nearest,
    "maxsim": maxsim,
    "cap_tokens": cap_tokens,
}
