"""Throughput: manual and autoscale, of a container or shared by a database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from projections.emulator.errors import bad_request

MANUAL_HEADER = "x-ms-offer-throughput"
AUTOSCALE_HEADER = "x-ms-cosmos-offer-autopilot-settings"
MIN_MANUAL = 400
MIN_AUTOSCALE = 1000
MAX_THROUGHPUT = 1_000_000


def content_from_headers(headers: Mapping[str, str]) -> dict[str, Any] | None:
    """The offer content a create request asks for, or None when it names no throughput."""
    autoscale = headers.get(AUTOSCALE_HEADER)
    manual = headers.get(MANUAL_HEADER)
    if autoscale is not None and manual is not None:
        raise bad_request("Manual and autoscale throughput cannot both be given.")
    if autoscale is not None:
        try:
            settings = json.loads(autoscale)
        except ValueError:
            raise bad_request(f"The header {AUTOSCALE_HEADER} is not JSON.") from None
        return complete_content({"offerAutopilotSettings": settings})
    if manual is not None:
        try:
            return complete_content({"offerThroughput": int(manual)})
        except ValueError:
            raise bad_request(f"The header {MANUAL_HEADER} is not a number: {manual}") from None
    return None


def complete_content(content: Any) -> dict[str, Any]:
    """Checks the ``content`` of an offer and fills it in."""
    if not isinstance(content, dict):
        raise bad_request("The offer has no content.")
    settings = content.get("offerAutopilotSettings")
    if settings:
        most = _throughput(settings.get("maxThroughput") if isinstance(settings, dict) else None, MIN_AUTOSCALE)
        policy = {"throughputPolicy": {"incrementPercent": _increment(settings.get("autoUpgradePolicy"))}}
        return _content(max(MIN_MANUAL, most // 10), {"maxThroughput": most, "autoUpgradePolicy": policy}, most)
    throughput = _throughput(content.get("offerThroughput"), MIN_MANUAL)
    return _content(throughput, None, throughput)


def maximum(content: Mapping[str, Any]) -> int:
    """The throughput that decides the number of physical partitions."""
    settings = content.get("offerAutopilotSettings")
    return int(settings["maxThroughput"] if settings else content["offerThroughput"])


def _increment(policy: Any) -> int:
    inner = policy.get("throughputPolicy") if isinstance(policy, dict) else None
    increment = inner.get("incrementPercent", 0) if isinstance(inner, dict) else 0
    if not isinstance(increment, int) or increment < 0:
        raise bad_request("The autoscale increment percent has to be a whole number, 0 or more.")
    return increment


def _throughput(value: Any, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise bad_request(f"The requested throughput '{value}' is not a whole number.")
    if value < least:
        raise bad_request(f"Requested throughput {value} is less than required minimum throughput {least}")
    if value > MAX_THROUGHPUT:
        raise bad_request(f"Requested throughput {value} is more than the maximum throughput {MAX_THROUGHPUT}")
    if value % 100:
        raise bad_request(f"Requested throughput {value} is not a multiple of 100.")
    return value


def _content(throughput: int, autoscale: dict[str, Any] | None, most: int) -> dict[str, Any]:
    made: dict[str, Any] = {
        "offerThroughput": throughput,
        "offerIsRUPerMinuteThroughputEnabled": False,
        "offerMinimumThroughputParameters": {
            "maxThroughputEverProvisioned": most,
            "maxConsumedStorageEverInKB": 0,
        },
        "offerLastReplaceTimestamp": 0,
    }
    if autoscale:
        made["offerAutopilotSettings"] = autoscale
    return made
