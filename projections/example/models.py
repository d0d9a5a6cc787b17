"""What an order of the shop looks like where a projection depends on it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Order(BaseModel):
    """The fields that `big-open-orders` depends on. An order may have any others."""

    model_config = ConfigDict(strict=True)

    orderId: str = Field(min_length=1)  # noqa: N815  (the item's own spelling)
    status: Literal["open", "paid", "shipped", "cancelled"]
    region: str = Field(min_length=1)
    total: Annotated[float, Field(ge=0)]
