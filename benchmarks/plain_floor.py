"""The pass-through everybody writes first: FastAPI + httpx. What the data path is measured against, not an example."""

from __future__ import annotations

import sys

import httpx
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

app = FastAPI()
client = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None))
upstream = ""


@app.post("/v1/chat/completions")
async def chat(request: Request) -> StreamingResponse:
    body = await request.body()
    call = client.build_request(
        "POST", f"{upstream}/v1/chat/completions", content=body, headers={"content-type": "application/json"}
    )
    answer = await client.send(call, stream=True)
    return StreamingResponse(answer.aiter_raw(), answer.status_code, media_type=answer.headers.get("content-type"))


if __name__ == "__main__":
    port, upstream = int(sys.argv[1]), sys.argv[2]
    uvicorn.run(app, host="127.0.0.1", port=port, access_log=False, log_level="warning")
