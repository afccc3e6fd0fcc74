import subprocess
import sys


def test_the_package_needs_no_optional_library() -> None:
    script = (
        "import sys, miv.verifier.network\n"
        "print([name for name in ('transformers', 'timm', 'torchvision') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
