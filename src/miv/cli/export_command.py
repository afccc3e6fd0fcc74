"""``miv export``: write a verifier as one file that runs without PyTorch."""

from pathlib import Path
from typing import Annotated

from typer import Option

import miv
from miv.cli.app import JsonOption, ModelArgument, OverwriteOption, app, open_verifier, print_json, say
from miv.files.atomic import refuse_existing

LOADER = Path(miv.__file__).parent / "interop" / "onnx_verifier.py"  # not imported: that would load PyTorch for --help


@app.command("export", epilog=f"Loader to copy into your project (needs only numpy and onnxruntime): {LOADER}")
def export(
    model: ModelArgument,
    onnx: Annotated[Path, Option(help="The ONNX file to write.")],
    features_only: Annotated[
        bool, Option("--features-only", help="Leave out the backbone; the model takes features as input.")
    ] = False,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Write a verifier as an ONNX file for bags of any size, and check it against PyTorch.

    Example: miv export runs/dba --onnx verifier.onnx
    """
    from miv.interop import export_onnx

    refuse_existing(onnx, overwrite=overwrite)
    check = export_onnx(open_verifier(model), onnx, features_only=features_only)
    if json:
        found = {"bag_sizes": check.bag_sizes, "logit": check.logit, "attention": check.attention}
        print_json({"file": str(onnx), **found})
        return
    say(f"To use it, copy {LOADER} into your project.")
    print(
        f"Wrote {onnx} ({onnx.stat().st_size / 1e6:.1f} MB). On {len(check.bag_sizes)} random bags of "
        f"{min(check.bag_sizes)} to {max(check.bag_sizes)} instances, ONNX Runtime differs from PyTorch by at most "
        f"{check.worst:.1e}."
    )
