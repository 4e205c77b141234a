from fastapi import FastAPI

from stockroom.api import items


def create_app() -> FastAPI:
    app = FastAPI(title="stockroom")
    app.include_router(items.router)
    return app


app = create_app()
