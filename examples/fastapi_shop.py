"""A web shop. `python examples/fastapi_shop.py` starts a PostgreSQL and ships a few orders.

An order and its job are written in one SQLAlchemy transaction. With a database of your own, run
`uvicorn fastapi_shop:web`, and `queue -a fastapi_shop:app worker` instead of the worker in the
web process.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Annotated

import httpx
from fastapi import Depends, FastAPI, HTTPException
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.pool import NullPool

from inturn import App
from inturn.contrib.lifespan import lifespan
from inturn.embedded import Server
from inturn.schema.migrate import migrate

app = App()
web = FastAPI(lifespan=lifespan(app, worker=True))


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]
    state: Mapped[str] = mapped_column(default="new")


def engine():
    address = make_url(os.environ["INTURN_DSN"]).set(drivername="postgresql+psycopg")
    return create_async_engine(address, poolclass=NullPool)


async def transaction() -> AsyncIterator[AsyncSession]:
    """Give each request a transaction of its own, which is rolled back if the request fails."""
    async with AsyncSession(engine()) as session, session.begin():
        yield session


# The scope makes it commit before the answer is sent. By default FastAPI ends a dependency after
# that, so a client would know of an order that is not there yet, or whose commit failed.
Session = Annotated[AsyncSession, Depends(transaction, scope="function")]


@app.task
async def ship(order: int) -> None:
    async with AsyncSession(engine()) as session, session.begin():
        row = await session.get_one(Order, order)
        row.state = "shipped"
        print(f"order {order} of {row.customer} is on its way", flush=True)


@web.post("/orders", status_code=201)
async def buy(customer: str, session: Session, in_stock: bool = True) -> int:
    order = Order(customer=customer)
    session.add(order)
    await session.flush()
    deferrer = ship.configure(lock=f"customer:{customer}", connection=session)
    await deferrer.defer_async(order=order.id)
    if not in_stock:
        raise HTTPException(409, "sold out")  # order and job are rolled back together
    return order.id


@web.get("/orders/{order}")
async def state(order: int, session: Session) -> str:
    return (await session.get_one(Order, order)).state


async def main() -> None:
    async with engine().begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    transport = httpx.ASGITransport(app=web)
    async with (
        web.router.lifespan_context(web),  # a web server does this for you
        httpx.AsyncClient(transport=transport, base_url="http://shop") as browser,
    ):
        orders = []
        for customer in ("ann", "bob", "ann"):
            orders.append((await browser.post("/orders", params={"customer": customer})).json())
        refused = await browser.post("/orders", params={"customer": "eve", "in_stock": False})
        print(f"eve: {refused.json()['detail']}")
        for order in orders:
            # A browser has no event to wait for, so it asks again.
            while (await browser.get(f"/orders/{order}")).json() != "shipped":  # noqa: ASYNC110
                await asyncio.sleep(0.05)


if __name__ == "__main__":
    with Server() as server:
        os.environ["INTURN_DSN"] = server.dsn()
        migrate(server.dsn())
        asyncio.run(main())
