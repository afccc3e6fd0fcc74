"""What a backbone is: instances in, feature vectors out."""

from torch import Tensor, nn

from miv.errors import MivError
from miv.registry import Registry


class Backbone(nn.Module):
    """Turns instances ``(U, *instance_shape)`` into features ``(U, channels)``, query and targets alike."""

    channels: int
    instance_shape: tuple[int | None, ...]  # None where any length will do

    def __call__(self, instances: Tensor) -> Tensor:
        """Check the shape, then embed."""
        shape = self.instance_shape
        given = tuple(instances.shape[1:])
        fits = len(given) == len(shape) and all(s in (None, g) for s, g in zip(shape, given, strict=True))
        if not fits or not instances.is_floating_point():
            wanted = ", ".join(str(length or "any") for length in shape)
            raise MivError(
                f"The instances are {instances.dtype} {tuple(instances.shape)}. "
                f"Expected float (number of instances, {wanted})."
            )
        features: Tensor = super().__call__(instances)
        return features


BACKBONES: Registry[Backbone] = Registry("backbone")
