"""Devices, as people name them."""

import torch

from miv.errors import MIVError


def checked_device(given: str | torch.device | None) -> torch.device:
    """Return the device of that name; refuse what is none, or is not on this machine.

    >>> checked_device(None), checked_device("cpu")
    (device(type='cpu'), device(type='cpu'))
    """
    try:
        device = torch.device(given or "cpu")
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:  # torch has a type for each way to be wrong
        reason = str(error).strip().split("\n")[0].rstrip(".")
        raise MIVError(
            f"device is {str(given)!r}, which cannot be used here: {reason}. Expected a device of this machine, such "
            "as cpu, cuda or mps."
        ) from error
    return device
