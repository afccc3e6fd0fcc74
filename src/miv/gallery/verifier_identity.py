"""Which verifier a gallery belongs to."""

from pathlib import Path
from typing import TYPE_CHECKING

from miv.errors import MIVError
from miv.gallery.store.gallery_manifest import GalleryManifest
from miv.poolings import form_of
from miv.streaming import backbone_fingerprint as backbone_fingerprint
from miv.streaming import verifier_fingerprint as verifier_fingerprint

if TYPE_CHECKING:
    from miv.models.verifier import Verifier


def new_manifest(verifier: "Verifier") -> GalleryManifest:
    """The manifest of an empty gallery of a verifier."""
    form = form_of(verifier.pooling)
    return GalleryManifest(
        fingerprint=verifier_fingerprint(verifier),
        backbone=backbone_fingerprint(verifier),
        channels=verifier.backbone.channels,
        width=form.width if form.is_kept_apart else 0,
    )


def check_same_verifier(manifest: GalleryManifest, verifier: "Verifier", folder: Path, named: str) -> None:
    """Raise an error if a gallery belongs to another verifier."""
    fingerprint = verifier_fingerprint(verifier)
    if fingerprint != manifest.fingerprint:
        raise MIVError(
            f"The gallery {folder} was made with the verifier {manifest.fingerprint[:12]}, and this is "
            f"{fingerprint[:12]}: what the gallery stores does not fit it. Open the gallery with its own verifier, "
            f"or make a new one: miv gallery create NEW {named} --like {folder}"
        )


def check_same_backbone(source: GalleryManifest, manifest: GalleryManifest, folder: Path) -> None:
    """Raise an error if the features of a gallery cannot be used by another verifier."""
    if source.backbone != manifest.backbone:
        raise MIVError(
            f"The verifier of the gallery {folder} has another backbone, so its features do not fit. Create the "
            "gallery without --like, and add the bags from their files again: miv gallery add"
        )
