"""What about a Functions app would lose changes: its host.json, what it registers, the leases it would work with.

Each finding says what to change. The app looks when it starts and refuses (functions.py); `doctor` may look earlier.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from projections.errors import UnsafeError
from projections.leases import Lease, leases
from projections.provision import Layout
from projections.store import Store
from projections.triggers import ALL_VERSIONS, RETRY, triggers

TIMEOUT: Final = "AzureFunctionsJobHost__functionTimeout"
"""The app setting that overrides `functionTimeout` of host.json."""
RETRY_SETTING: Final = "AzureFunctionsJobHost__retry"
"""What app settings that override `retry` of host.json begin with."""
DEFAULT_TIMEOUT: Final = 300.0
"""Seconds: the default of the plan with the shortest (Consumption)."""
LONGEST_TIMEOUT: Final = 600.0
"""Seconds: the grace that a platform upgrade gives to running calls, however long they may take otherwise."""
SHORTEST_TIMEOUT: Final = 60.0
"""Seconds: time for a store call to be tried again a few times, and for what is left to be deferred."""
BUNDLE: Final = "Microsoft.Azure.Functions.ExtensionBundle"
OLDEST_BUNDLE: Final = (4, 26, 0)
"""Has trigger 4.16.1, the first whose every call from Python works (facts.md 9)."""
STRATEGIES: Final = ("exponential_backoff", "fixed_delay")
"""facts.md 5: the host knows no other spelling, and drops the functions without a word."""
LATEST: Final = "LatestVersion"
"""The mode of a trigger's feed that says nothing of it."""
FRESH_SECONDS: Final = 60.0
"""facts.md 11: a lease that has not been renewed for so long is nobody's."""


class UnheldError(UnsafeError):
    """A call that fails would be forgotten: the host goes on to the next changes."""


def functions_findings(root: Path, layout: Layout, environment: Mapping[str, str] | None = None) -> list[UnsafeError]:
    """What is unsafe about the app in a folder, as far as its files, settings and catalog tell."""
    host, problems = read_host(root)
    environment = environment or {}
    problems += [*_timeout(host, environment), *_retry_of_host(host, environment), *_bundle(host, root)]
    named = [(str(t.source), f"{t.leases}/{t.lease_prefix}", t.function) for t in triggers(layout)]
    return [*problems, *_shared_prefixes(named)]


def read_host(root: Path) -> tuple[Mapping[str, Any], list[UnsafeError]]:
    """host.json, empty where it cannot be read, and what is wrong with that."""
    hint = "restore the host.json that comes with the app; the README explains each key"
    try:
        found = json.loads((root / "host.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}, [UnsafeError("there is no host.json", hint=hint)]
    except ValueError as error:
        return {}, [UnsafeError(f"host.json is no JSON: {error}", hint=hint)]
    return (found, []) if isinstance(found, dict) else ({}, [UnsafeError("host.json is no object", hint=hint)])


# how long a call may take


def function_timeout(host: Mapping[str, Any], environment: Mapping[str, str]) -> float:
    """Seconds that a call may take, as far as that can be counted on."""
    seconds = _seconds(_timeout_text(host, environment))
    return DEFAULT_TIMEOUT if seconds is None else min(LONGEST_TIMEOUT, seconds)


def _timeout_text(host: Mapping[str, Any], environment: Mapping[str, str]) -> str | None:
    text = environment.get(TIMEOUT, host.get("functionTimeout"))
    return None if text is None else str(text)


def _seconds(text: str | None) -> float | None:
    match = re.fullmatch(r"(?:(\d+)\.)?(\d\d):(\d\d):(\d\d)", text or "")
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60.0 + seconds


def _timeout(host: Mapping[str, Any], environment: Mapping[str, str]) -> Iterator[UnsafeError]:
    text = _timeout_text(host, environment)
    seconds = _seconds(text)
    hint = f'set functionTimeout in host.json (or {TIMEOUT}) to "00:10:00"'
    if text == "-1":
        yield UnsafeError("functionTimeout is -1: a call that hangs would hold its changes for ever", hint=hint)
    elif text is not None and seconds is None:
        yield UnsafeError(f"functionTimeout {text!r} is no time span", hint=hint)
    elif seconds is not None and seconds < SHORTEST_TIMEOUT:
        yield UnsafeError(
            f"functionTimeout {text} is too short to wait for a busy store and to defer what is not done "
            f"({SHORTEST_TIMEOUT:g} s at least)",
            hint=hint,
        )


# host.json beside the time-out


def _retry_of_host(host: Mapping[str, Any], environment: Mapping[str, str]) -> Iterator[UnsafeError]:
    if "retry" in host:
        yield UnsafeError(
            "host.json has `retry`, which competes with the unlimited policy set in code",
            hint="remove `retry` from host.json",
        )
    for name in sorted(environment):
        if name.startswith(RETRY_SETTING):
            yield UnsafeError(
                f"the app setting {name} competes with the unlimited retry policy set in code",
                hint=f"remove the app setting {name}",
            )


def _bundle(host: Mapping[str, Any], root: Path) -> Iterator[UnsafeError]:
    bundle = host.get("extensionBundle")
    oldest = ".".join(map(str, OLDEST_BUNDLE))
    hint = f'set extensionBundle in host.json to {{"id": "{BUNDLE}", "version": "[{oldest}, 5.0.0)"}}'
    if bundle is None:
        if not (root / "extensions.csproj").exists():  # then the team looks after the extension itself
            yield UnsafeError("host.json names no extensionBundle, so there would be no Cosmos DB trigger", hint=hint)
        return
    text = bundle.get("version") if isinstance(bundle, dict) else None
    if not _reaches(str(text)):
        yield UnsafeError(
            f"extensionBundle version {text!r} allows none from {oldest} on, whose trigger this app needs", hint=hint
        )


def _reaches(text: str) -> bool:
    """Whether a range such as "[4.26.0, 5.0.0)" allows a bundle that is new enough; the host takes the newest."""
    match = re.fullmatch(r"\s*([\[(])([^,\])]*)(?:(,)([^\])]*))?([\])])\s*", text)
    if match is None:
        return False
    low, comma, high, end = match.group(2), match.group(3), match.group(4), match.group(5)
    if not comma:
        return _numbers(low) >= OLDEST_BUNDLE
    if not high.strip():
        return True
    return _numbers(high) > OLDEST_BUNDLE or (end == "]" and _numbers(high) == OLDEST_BUNDLE)


def _numbers(text: str) -> tuple[int, ...]:
    parts = [int(part) if part.isdigit() else 0 for part in text.strip().split(".")]
    return (*parts, 0, 0)[:3]


# what is registered


@dataclass(frozen=True)
class Registered:
    """A function with a Cosmos DB trigger, as the host will be told of it."""

    name: str
    binding: Mapping[str, Any]
    retry: Mapping[str, Any] | None


def registered(functions: Iterable[Any]) -> list[Registered]:
    """The Cosmos DB triggers among the functions that `FunctionApp.get_functions` tells of."""
    found = []
    for function in functions:
        for binding in function.get_bindings():
            told = binding.get_dict_repr()
            if str(told.get("type", "")).casefold() == "cosmosdbtrigger":
                retry = function.get_settings_dict("retry_policy")
                found.append(Registered(function.get_function_name(), told, retry or None))
    return found


def misspelled(functions: Iterable[Registered]) -> list[UnsafeError]:
    """Retry policies on account of which the host would drop every function without a word (facts.md 5)."""
    return [
        UnsafeError(
            f"function {function.name}: there is no retry strategy {function.retry.get('strategy')!r}",
            hint=f"write {' or '.join(STRATEGIES)}: any other spelling makes all functions of the app vanish",
        )
        for function in functions
        if function.retry and function.retry.get("strategy") not in STRATEGIES
    ]


def registration_findings(functions: Iterable[Registered]) -> list[UnsafeError]:
    """What is unsafe about what is registered."""
    functions = list(functions)
    named = [
        (
            _source_of(f),
            f"{f.binding.get('leaseDatabaseName', f.binding.get('databaseName'))}/"
            f"{f.binding.get('leaseContainerName', 'leases')}/{f.binding.get('leaseContainerPrefix', '')}",
            f.name,
        )
        for f in functions
    ]
    problems = [problem for f in functions for problem in _registration(f)]
    return [*problems, *_unloaded(functions), *_shared_prefixes(named)]


def _registration(function: Registered) -> Iterator[UnsafeError]:
    subject = f"function {function.name}"
    if function.retry is None or str(function.retry.get("max_retry_count")) != "-1":
        kind = "no retry policy" if function.retry is None else "a retry policy that ends"
        yield UnheldError(
            f"{subject} has {kind}: the host would go on after a failure, and its changes would be lost",
            hint=f"register it with @app.retry(**RETRY), that is {RETRY}",
        )
    mode, starts = _mode(function), [function.binding.get(name) for name in ("startFromBeginning", "startFromTime")]
    if mode == ALL_VERSIONS and any(starts):
        yield UnsafeError(
            f"{subject} reads all versions and has a start setting, with which the host does not start it",
            hint="register it without start_from_beginning and start_from_time",
        )
    elif mode == LATEST and (not starts[0] or starts[1]):
        yield UnsafeError(
            f"{subject} does not start from the beginning of the feed, so items from before would be missing",
            hint="register it with start_from_beginning=True and without start_from_time",
        )
    elif mode not in (LATEST, ALL_VERSIONS):
        yield UnsafeError(
            f"{subject} reads the feed in mode {mode!r}, which the host does not have",
            hint=f"leave change_feed_mode out, or write {ALL_VERSIONS!r}",
        )


def _mode(function: Registered) -> str:
    mode = function.binding.get("changeFeedMode") or LATEST
    return str(getattr(mode, "value", mode))


def _unloaded(functions: Sequence[Registered]) -> Iterator[UnsafeError]:
    """A trigger that reads all versions starts now (facts.md 15): another one has to bring what was there before."""
    loaded = {_source_of(function) for function in functions if _mode(function) == LATEST}
    for function in functions:
        if _mode(function) == ALL_VERSIONS and _source_of(function) not in loaded:
            yield UnsafeError(
                f"function {function.name} reads all versions of {_source_of(function)} from now on, and no function "
                "reads the latest ones from the beginning",
                hint="register every trigger that `projections.triggers` names",
            )


def _source_of(function: Registered) -> str:
    return f"{function.binding.get('databaseName')}/{function.binding.get('containerName')}"


def _shared_prefixes(named: Iterable[tuple[str, str, str]]) -> Iterator[UnsafeError]:
    """Of (source, leases, function): functions with equal leases would each get a part of the feed (facts.md 7)."""
    groups: dict[tuple[str, str], list[str]] = {}
    for source, prefix, function in named:
        groups.setdefault((source, prefix), []).append(function)
    for (source, prefix), functions in groups.items():
        if len(functions) > 1:
            yield UnsafeError(
                f"functions {', '.join(functions)} share the lease prefix {prefix} on {source}: each would get only a "
                "part of the changes",
                hint="give each function a lease_container_prefix of its own",
            )


# leases


async def leases_findings(store: Store, layout: Layout) -> list[UnsafeError]:
    """What is unsafe about the leases container and what is in it."""
    found = await store.describe(layout.leases)
    if found is None:
        return [UnsafeError(f"there is no container {layout.leases}", hint="create it with `projections init`")]
    problems = []
    if found.key_paths != ("/id",):
        problems.append(
            UnsafeError(
                f"the leases container {layout.leases} is keyed {', '.join(found.key_paths)}; /id is needed",
                hint="remove it and create it with `projections init`, or name another one: Catalog(leases=...)",
            )
        )
    if found.default_ttl is not None and found.default_ttl > 0:
        problems.append(
            UnsafeError(
                f"the leases container {layout.leases} forgets its leases after {found.default_ttl} s",
                hint="switch its default TTL off",
            )
        )
    for lease in await leases(store, layout):
        if lease.all_versions != lease.trigger.all_versions:
            mode = ALL_VERSIONS if lease.all_versions else LATEST
            problems.append(
                UnsafeError(
                    f"lease {lease.id} is of the {mode} mode, which cannot be changed",
                    hint="raise the projection's version: it gets a lease prefix of its own",
                )
            )
            break
    return problems


@dataclass(frozen=True)
class Sharing:
    """Who works with the leases of one projection: instances of one app that has scaled out, or of two apps."""

    prefix: str
    owners: int  # with a lease that was renewed a short while ago
    feeds: int  # that the leases belong to: accounts' addresses, or containers made anew


async def sharing(store: Store, layout: Layout, now: float) -> list[Sharing]:
    """Where one cannot tell from the leases that this app has the feed to itself. A lease does not name its app."""
    found: dict[str, list[Lease]] = {}
    for lease in await leases(store, layout):
        found.setdefault(lease.trigger.lease_prefix, []).append(lease)
    every = [Sharing(prefix, _owners(own, now), len({lease.feed for lease in own})) for prefix, own in found.items()]
    return [one for one in every if one.owners > 1 or one.feeds > 1]


def _owners(some: Iterable[Lease], now: float) -> int:
    return len({lease.owner for lease in some if lease.owner and now - lease.renewed < FRESH_SECONDS})
