from fastapi import FastAPI

from boxoffice.routers import bookings, screenings

app = FastAPI(title="boxoffice")
app.include_router(screenings.router)
app.include_router(bookings.router)
