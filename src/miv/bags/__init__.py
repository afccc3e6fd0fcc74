"""Ragged bags: all instances of a batch in one tensor, the borders between the bags, and fast operations on both."""

from miv.bags.bags import Bags, as_bags

__all__ = ["Bags", "as_bags"]
