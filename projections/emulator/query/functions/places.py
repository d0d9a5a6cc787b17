"""Distances on the globe. Of the spatial functions only this one is here, and only between two points."""

from __future__ import annotations

import math
from typing import Any

from ..values import UNDEFINED, is_number
from .registry import register

RADIUS = 6_371_008.8  # metres; the mean of the WGS 84 axes


def _point(value: dict[str, Any]) -> tuple[float, float] | None:
    """Longitude and latitude of a GeoJSON point, in radians."""
    place = value.get("coordinates")
    if value.get("type") != "Point" or not isinstance(place, list) or len(place) < 2 or not all(map(is_number, place)):
        return None
    longitude, latitude = place[0], place[1]
    if abs(longitude) > 180 or abs(latitude) > 90:
        return None
    return math.radians(longitude), math.radians(latitude)


def _distance(left: dict[str, Any], right: dict[str, Any]) -> Any:
    """Metres along a sphere: within half a percent of the service, which takes the ellipsoid."""
    one, other = _point(left), _point(right)
    if one is None or other is None:
        return UNDEFINED
    across, up = (other[0] - one[0]) / 2, (other[1] - one[1]) / 2
    half = math.sin(up) ** 2 + math.cos(one[1]) * math.cos(other[1]) * math.sin(across) ** 2
    return 2 * RADIUS * math.asin(min(math.sqrt(half), 1))


register("ST_DISTANCE", "oo", _distance)
