"""A typical proxy with aiohttp on both sides. Runs in the bench's own environment, without hotseat.

aiohttp_program.py PORT MODEL=URL...
"""

from __future__ import annotations

import asyncio
import json
import sys

import uvloop
from aiohttp import ClientSession, TCPConnector, web  # type: ignore[import-not-found]  # not in hotseat's environment

HOP_BY_HOP = {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}


async def serve(port: int, models: dict[str, str]) -> None:
    async with ClientSession(connector=TCPConnector(limit=0), auto_decompress=False) as session:

        async def relay(request: web.Request) -> web.StreamResponse:
            body = await request.read()
            url = models[json.loads(body)["model"]] + request.path_qs
            headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
            async with session.request(request.method, url, data=body, headers=headers) as answer:
                response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
                response.content_length = answer.content_length
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                return response

        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/{path:.*}", relay)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, backlog=4096).start()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    asyncio.run(serve(int(sys.argv[1]), dict(entry.split("=", 1) for entry in sys.argv[2:])))
