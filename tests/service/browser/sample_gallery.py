"""A gallery of synthetic digits, put on the service over the network."""

import json
from typing import Any
from urllib.request import Request, urlopen

NAME = "writers"
# Two bags with something by the writer of the sample's query, one without.
_BAGS = {"letters of 1912": "digits-present", "postcards": "digits-references", "bills": "digits-absent"}


def fill_gallery(address: str) -> None:
    """Create the gallery and add its bags."""
    _send(address, "POST", "/v1/galleries", {"name": NAME, "model": "miv/digits"})
    for bag, sample in _BAGS.items():
        instances = _send(address, "GET", f"/v1/samples/{sample}?model=miv/digits")["bag"]
        named = [{**one, "name": f"page {place}.png"} for place, one in enumerate(instances, 1)]
        _send(address, "PUT", f"/v1/galleries/{NAME}/bags/{bag.replace(' ', '%20')}", {"bag": named})


def _send(address: str, method: str, path: str, content: Any = None) -> Any:
    body = None if content is None else json.dumps(content).encode()
    request = Request(address + path, body, {"Content-Type": "application/json"}, method=method)
    with urlopen(request, timeout=60) as answer:
        return json.load(answer)
