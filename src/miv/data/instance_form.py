"""The form of a verifier's training images, so that other images can be converted the same way or rejected."""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from miv.data.instance_pool import InstancePool
from miv.errors import MIVError
from miv.io.image_steps import Steps, checked_steps

_LARGEST_SIDE = 10_000


@dataclass(frozen=True)
class InstanceForm:
    """Height, width and colour mode of all images, and how they came about.

    Args:
        height: in pixels.
        width: in pixels.
        mode: ``L`` for grey, ``RGB`` for colour, as Pillow calls them.
        kind: ``image``; vectors and texts need no form.
        steps: the steps from the pixels of a file to an image, such as Otsu's threshold; ``None`` if unknown, as for
            verifiers from before they were recorded.

    >>> InstanceForm(28, 28, "L").shape, InstanceForm(32, 48, "RGB").shape
    ((28, 28), (32, 48, 3))
    """

    height: int
    width: int
    mode: Literal["L", "RGB"]
    kind: Literal["image"] = "image"
    steps: Steps | None = None

    @classmethod
    def of(cls, pool: InstancePool) -> "InstanceForm | None":
        """Return the form of a pool's images, or ``None`` if its instances are not images."""
        if pool.kind != "image":
            return None
        height, width = pool.values.shape[1:3]
        return cls(int(height), int(width), "RGB" if pool.values.ndim == 4 else "L", steps=pool.image_steps)

    @classmethod
    def checked(cls, document: object) -> "InstanceForm":
        """Return the form described by a file's ``document``; anything else is an error."""
        form: InstanceForm | None
        try:
            form = cls(**document)  # type: ignore[arg-type]
        except TypeError:
            form = None
        sides = () if form is None else (form.height, form.width)
        fits = all(type(side) is int and 1 <= side <= _LARGEST_SIDE for side in sides)
        if form is None or not fits or form.mode not in ("L", "RGB") or form.kind != "image":
            raise MIVError(
                f"instances is {str(document)[:80]}. Expected kind image, height and width from 1 to "
                f"{_LARGEST_SIDE:,}, and mode L or RGB."
            )
        if form.steps is None:
            return form
        return replace(form, steps=checked_steps(form.steps, colour=form.mode == "RGB"))

    @property
    def size(self) -> tuple[int, int]:
        """``(height, width)``."""
        return self.height, self.width

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one image as an array."""
        return (*self.size, 3) if self.mode == "RGB" else self.size

    def document(self) -> dict[str, Any]:
        """Return plain values, for JSON; without steps, the same as before they were recorded."""
        document = asdict(self)
        steps = document.pop("steps")
        return document if steps is None else document | {"steps": list(steps)}
