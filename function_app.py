"""The Azure Functions app: a Cosmos DB trigger for every projection of the catalog, and a health route.

Only what the host has to know is here. What happens to a change is in projections/functions.py.
"""

from pathlib import Path

import azure.functions as func

from projections.functions import RETRY, Trigger, TriggeredWorker, triggers

worker = TriggeredWorker.from_environment(Path(__file__).parent)
app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)


def register(trigger: Trigger) -> None:
    """One function that is called with the changes of one projection's source."""

    @app.function_name(trigger.function)
    @app.cosmos_db_trigger(arg_name="documents", **trigger.binding)
    @app.retry(**RETRY)
    async def changes(documents: func.DocumentList) -> None:
        await worker.apply(trigger.projection, documents)


for trigger in triggers(worker.layout):
    register(trigger)


@app.function_name("health")
@app.route("health", trigger_arg_name="request", methods=["GET"])
async def health(request: func.HttpRequest) -> func.HttpResponse:
    """Whether the account answers."""
    status, body = await worker.health()
    return func.HttpResponse(body, status_code=status, mimetype="application/json")
