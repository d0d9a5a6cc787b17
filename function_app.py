"""The Azure Functions app: Cosmos DB triggers for every projection of the catalog, two timers, and a health route.

Only what the host has to know is here. What happens to a change is in projections/functions.py.
"""

from pathlib import Path

import azure.functions as func

from projections.functions import TriggeredWorker
from projections.triggers import AUDIT, DRAIN, RETRY, Trigger, triggers

worker = TriggeredWorker.from_environment(Path(__file__).parent)


class App(func.FunctionApp):
    def get_functions(self) -> list[func.Function]:
        """What the host is told of; it is looked over first."""
        functions = super().get_functions()
        worker.examine(functions)
        return functions


app = App(http_auth_level=func.AuthLevel.ANONYMOUS)


def register(trigger: Trigger) -> None:
    """One function that is called with the changes of one projection's source."""

    @app.function_name(trigger.function)
    @app.cosmos_db_trigger(arg_name="documents", **trigger.binding)
    @app.retry(**RETRY)
    async def changes(documents: func.DocumentList) -> None:
        await worker.apply(trigger.projection, documents)


for trigger in triggers(worker.layout):
    register(trigger)


@app.function_name("drain")
@app.timer_trigger(arg_name="timer", schedule=DRAIN)
async def drain(timer: func.TimerRequest) -> None:
    """Applies what calls had to defer."""
    await worker.drain()


@app.function_name("audit")
@app.timer_trigger(arg_name="timer", schedule=AUDIT)
async def audit(timer: func.TimerRequest) -> None:
    """Repairs what the host itself has lost."""
    await worker.audit()


@app.function_name("health")
@app.route("health", trigger_arg_name="request", methods=["GET"])
async def health(request: func.HttpRequest) -> func.HttpResponse:
    """Whether the account answers, and what is refused."""
    status, body = await worker.health()
    return func.HttpResponse(body, status_code=status, mimetype="application/json")
