"""Devices by name."""

import torch

from miv.errors import MIVError


def checked_device(given: str | torch.device | None) -> torch.device:
    """Return the device with this name; raise an error if it is invalid or not on this machine.

    >>> checked_device(None), checked_device("cpu")
    (device(type='cpu'), device(type='cpu'))
    """
    try:
        device = torch.device(given or "cpu")
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:  # torch raises different types for different mistakes
        reason = str(error).strip().split("\n")[0].rstrip(".")
        raise MIVError(
            f"device is {str(given)!r}, which is not available: {reason}. Expected a device of this machine, such "
            "as cpu, cuda or mps."
        ) from error
    return device
