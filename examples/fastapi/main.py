"""A back end with a page. The page sends a viewer session to get its data."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fastapi import Depends, FastAPI, Header, HTTPException, Request, Response
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse
from user_group_service import (
    AsyncClient,
    ConnectError,
    CreateViewerSessionRequest,
    GetUserGroupRequest,
    InvalidViewerSession,
    KeysUnavailable,
    Struct,
    by_id,
    reason_of,
    verify_viewer_session,
)

UGS_URL = os.environ.get("UGS_URL", "http://127.0.0.1:8080")
ISSUER = f"{UGS_URL}/e/{os.environ.get('UGS_ENVIRONMENT', 'dev/Customer')}"
AUDIENCE = "dashboards"
# The origin of the page.
ORIGIN = os.environ.get("ORIGIN", "http://127.0.0.1:3000")
POLICY = "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'"


@dataclass
class Person:
    name: str
    customer: str


def logged_in() -> Person:
    """Replace this function with your own login. Raise HTTPException(401) if nobody is logged in."""
    return Person(name="bob", customer="acme")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncClient(UGS_URL, os.environ.get("API_TOKEN", "")) as client:
        # If the group of the customer does not exist, this call creates it. Make this call where you create customers.
        await client.user_groups.get_user_group(
            GetUserGroupRequest(user_group_id="acme", name="Acme", properties=Struct.from_python({"plan": "gold"}))
        )
        app.state.client = client
        yield


app = FastAPI(lifespan=lifespan, openapi_url=None)


@app.middleware("http")
async def of_this_page(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """Redirects requests for other host names to the page. Refuses POST requests that come from other sites.

    Browsers add the cookie of the viewer even to requests from other sites.
    """
    if request.headers.get("Host") != ORIGIN.partition("://")[2]:
        return RedirectResponse(ORIGIN)
    site = request.headers.get("Sec-Fetch-Site")
    # Browsers from before 2023 send only `Origin`.
    is_own = site == "same-origin" if site else request.headers.get("Origin") == ORIGIN
    if request.method == "POST" and not is_own:
        return JSONResponse({"detail": "requests from other sites are refused"}, 403)
    response = await call_next(request)
    response.headers["Content-Security-Policy"] = POLICY
    return response


@app.post("/viewer-session")
async def viewer_session(
    request: Request, response: Response, person: Annotated[Person, Depends(logged_in)]
) -> dict[str, str]:
    """Creates a session for the person who is logged in. The page receives no token."""
    made = await request.app.state.client.viewers.create_viewer_session(
        CreateViewerSessionRequest(
            group=by_id(person.customer), audience=AUDIENCE, viewer_id=person.name, property_keys=["plan"]
        )
    )
    response.headers["Cache-Control"] = "no-store"
    return {"session": made.session}


# This function is not `async`, because it blocks while it reads keys. FastAPI runs a function that is not `async` in a
# thread, so the function does not block other requests.
@app.get("/data")
def data(authorization: Annotated[str, Header()] = "") -> dict[str, str | None]:
    """Verifies a session, and returns the data for the page. A back end needs no API token to verify a session."""
    try:
        viewer = verify_viewer_session(authorization.removeprefix("Bearer "), issuer=ISSUER, audience=AUDIENCE)
    except InvalidViewerSession as error:
        raise HTTPException(401, str(error), {"WWW-Authenticate": "Bearer"}) from error
    except KeysUnavailable as error:
        print(error, flush=True)
        raise HTTPException(503, "try again") from error
    return {"customer": viewer.user_group_id, "viewer": viewer.viewer_id, "plan": viewer.properties.get("plan")}


@app.exception_handler(ConnectError)
async def failed(_: Request, error: ConnectError) -> JSONResponse:
    """Logs the error, and sends only the text "try again" to the page."""
    print("the call failed:", error.code, reason_of(error), error, flush=True)
    return JSONResponse({"detail": "try again"}, 503)


@app.get("/")
def page() -> FileResponse:
    return FileResponse(Path(__file__).with_name("page.html"))


@app.get("/page.js")
def script() -> FileResponse:
    return FileResponse(Path(__file__).with_name("page.js"))
