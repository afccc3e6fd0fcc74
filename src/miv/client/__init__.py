"""A Python client of ``miv serve``: the calls of a verifier and of a gallery, answered by another process."""

from miv.client.http_connection import ServiceError
from miv.client.remote_gallery import RemoteGallery
from miv.client.service_client import Client, RemoteBag

__all__ = ["Client", "RemoteBag", "RemoteGallery", "ServiceError"]
