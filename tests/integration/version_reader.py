"""A reader in a process of its own: asks for every order by number, all the time, by the projection's name.

Prints the version that it reads whenever that is another one; ends with a line that names what it missed.
"""

from __future__ import annotations

import asyncio
import sys

from projections.cosmos import connect
from projections.named import NamedLookup
from projections.provision import Layout
from projections.settings import Settings


async def read(count: int) -> None:
    settings = Settings.read()
    shown = 0
    async with connect(settings) as store:
        lookup = await NamedLookup.open(
            store, Layout(settings.load_catalog(), settings.database), "by-number", refresh=0.2
        )
        while True:
            for n in range(count):
                found = (await lookup.entries(f"A-{n}")).entries
                if [entry["_source"]["id"] for entry in found] != [str(n)]:
                    print(f"missed A-{n}: {found}", flush=True)
                    return
            version = 1 if "customerId" in found[0] else 2
            if version != shown:
                shown = version
                print(f"version {shown}", flush=True)


if __name__ == "__main__":
    asyncio.run(read(int(sys.argv[1])))
