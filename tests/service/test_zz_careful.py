import asyncio, json, secrets
from copy import deepcopy
from itertools import cycle
from uuid import uuid4
import httpx, pytest
from hashlib import sha256
from tests.doubles.pair.cluster import Cluster, cluster
from tests.doubles.pair.front import front_door
from tests.service.pair_contract import Door, checks_for
from tests.service.pair_contract_fields import CLIENTS_OWN
from tests.service.pairing import prefill_body
from tests.doubles.pair.prompt import RAW


class Refuse(Exception):
    def __init__(s, status, text="", retry=""):
        s.status, s.text, s.retry = status, text, retry


class Again(Exception):
    def __init__(s, status=502, retry=""):
        s.status, s.retry = status, retry


class Careful:
    def __init__(self, c: Cluster):
        self.c = c
        self.P = cycle([a for a in c.addresses if a["role"] == "prefill"])
        self.D = cycle([a["url"] for a in c.addresses if a["role"] == "decode"])
        self.E = [a["url"] for a in c.addresses if a["role"] == "encode"]

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            self.client = httpx.AsyncClient(timeout=None, verify=False, limits=httpx.Limits(max_connections=None))
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await self.client.aclose()
            await send({"type": "lifespan.shutdown.complete"})
            return
        raw = b""
        while True:
            m = await receive()
            raw += m.get("body", b"")
            if not m.get("more_body"):
                break
        task = asyncio.create_task(self.handle(json.loads(raw), scope["path"]))

        async def gone():
            while (await receive())["type"] != "http.disconnect":
                pass

        watch = asyncio.create_task(gone())
        try:
            await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                return
            status, ctype, out, extra = task.result()
            await send(
                {
                    "type": "http.response.start",
                    "status": status,
                    "headers": [(b"content-type", ctype.encode()), *extra],
                }
            )
            await send({"type": "http.response.body", "body": out})
        finally:
            for t in (task, watch):
                t.cancel()
            await asyncio.gather(task, watch, return_exceptions=True)

    async def handle(self, body, path):
        if any(n in body for n in CLIENTS_OWN):
            return 400, "application/json", b'{"error":{}}', []
        stream = body.get("stream")
        n = body.pop("n", 1) or 1
        body = {**body, "stream": True, "stream_options": {"include_usage": True}}
        prompts = body.get("prompt") if isinstance(body.get("prompt"), list) else None
        bodies = [{**body, "prompt": p} for p in prompts] if prompts else [deepcopy(body) for _ in range(n)]
        try:
            results = await asyncio.gather(*(self.sample(b, path) for b in bodies))
        except (Refuse, Again) as r:
            return r.status, "application/json", b'{"error":{}}', [(b"retry-after", b"1")] if r.retry else []
        out = []
        err = None
        usage = None
        for i, (events, cached, broken) in enumerate(results):
            err = err or broken
            for e in events:
                e = dict(e)
                for k in ("kv_transfer_params", "ec_transfer_params", "prompt_token_ids"):
                    e.pop(k, None)
                if e.get("usage") and not e["choices"]:
                    e["usage"]["prompt_tokens_details"] = {"cached_tokens": cached}
                    usage = e
                    continue
                e["choices"] = [{**c, "index": i} for c in e["choices"]]
                out.append(e)
        if stream:
            if usage and not err:
                out.append(usage)
            text = "".join(f"data: {json.dumps(e)}\n\n" for e in out)
            text += 'data: {"error":{"message":"broken"}}\n\n' if err else "data: [DONE]\n\n"
            return 200, "text/event-stream", text.encode(), []
        choices = []
        for i in range(len(bodies)):
            mine = [c for e in out for c in e["choices"] if c["index"] == i]
            if prompts:
                choices.append({"index": i, "text": "".join(c["text"] for c in mine)})
            else:
                choices.append(
                    {
                        "index": i,
                        "message": {
                            "reasoning": "".join(
                                c["delta"].get("reasoning") or c["delta"].get("reasoning_content") or "" for c in mine
                            ),
                            "content": "".join(c["delta"].get("content") or "" for c in mine),
                        },
                    }
                )
        return 200, "application/json", json.dumps({"choices": choices}).encode(), []

    async def sample(self, body, path):
        last = Again()
        for _ in range(3):
            try:
                return await (self.room(body, path) if self.c.handoff == "sglang" else self.pull(body, path))
            except Again as a:
                last = a
            except httpx.TransportError:
                last = Again(502)
        raise last

    def bad(self, r):
        if r.status_code in (429, 503):
            raise Again(503, "1")
        if r.status_code >= 500:
            raise Again(502)
        if r.status_code >= 400:
            raise Refuse(r.status_code)

    async def prefill_leg(self, P, leg, path, rid, extra=None):
        r = await self.client.post(P["url"] + path, json=leg, headers={"x-request-id": rid, **(extra or {})})
        self.bad(r)
        try:
            return r.json()
        except ValueError:
            raise Again() from None

    async def encode(self, body):
        body = deepcopy(body)
        ec = {}
        if not self.E:
            return body, ec
        for m in body.get("messages", []):
            if not isinstance(m["content"], list):
                continue
            for i, p in enumerate(m["content"]):
                if p["type"] in RAW:
                    uuid = sha256(p[p["type"]]["url"].encode()).hexdigest()
                    r = await self.client.post(
                        self.E[0] + "/v1/chat/completions",
                        json={
                            "model": body["model"],
                            "stream": False,
                            "messages": [{"role": "user", "content": [{**p, "uuid": uuid}]}],
                        },
                        headers={"x-request-id": str(uuid4())},
                    )
                    self.bad(r)
                    ((h, e),) = r.json()["ec_transfer_params"].items()
                    m["content"][i] = {"type": "image_embeds", "image_embeds": e["metadata"], "uuid": uuid}
                    ec[h] = {k: e[k] for k in ("peer_host", "peer_port", "transfer_id")}
        return body, ec

    async def events(self, url, body, rid):
        out = []
        sem = False
        fin = False
        try:
            async with self.client.stream("POST", url, json=body, headers={"x-request-id": rid}) as r:
                if r.status_code != 200:
                    self.bad(r)
                async for line in r.aiter_lines():
                    if not line.startswith("data: ") or line == "data: [DONE]":
                        continue
                    e = json.loads(line[6:])
                    if "error" in e:
                        if not sem:
                            raise Again()
                        return out, True
                    out.append(e)
                    for c in e["choices"]:
                        d = c.get("delta", {})
                        sem = sem or bool(
                            c.get("text") or d.get("content") or d.get("reasoning") or d.get("reasoning_content")
                        )
                        fin = fin or bool(c.get("finish_reason"))
        except httpx.TransportError:
            if not sem:
                raise Again() from None
            return out, True
        return out, not fin

    async def pull(self, body, path):
        P = next(self.P)
        D = next(self.D)
        rid = str(uuid4())
        body, ec = await self.encode(body)
        h = self.c.handoff
        first = {**body, **({"ec_transfer_params": ec} if ec else {})}
        if h == "nixl":
            r = await self.prefill_leg(P, prefill_body(first), path, rid)
            kv = r.get("kv_transfer_params")
            if (
                not kv
                or not kv.get("remote_block_ids")
                or any(not kv.get(k) for k in ("remote_engine_id", "remote_request_id", "remote_host", "remote_port"))
            ):
                raise Again()
            kv = {**kv, "remote_host": P["kv_host"]}
            out, broken = await self.events(D + path, {**body, "kv_transfer_params": kv}, rid)
        else:
            offer = None
            extra = {}
            if h == "mooncake":
                x = f"xfer-{rid}"
                ranks = (await self.client.get(f"http://127.0.0.1:{P['bootstrap_port']}/query")).json()
                offer = {"do_remote_decode": True, "do_remote_prefill": False, "transfer_id": x}
                extra = {"x-data-parallel-rank": "0"}
                kv = {
                    "do_remote_decode": False,
                    "do_remote_prefill": True,
                    "remote_bootstrap_addr": f"http://127.0.0.1:{P['bootstrap_port']}",
                    "remote_engine_id": ranks["0"]["engine_id"],
                    "transfer_id": x,
                }
            else:
                kv = {
                    "do_remote_decode": False,
                    "do_remote_prefill": True,
                    "remote_engine_id": P["engine_id"],
                    "remote_host": P["kv_host"],
                    "remote_port": P["kv_port"],
                    "tp_size": 1,
                    "pp_size": 1,
                    "remote_request_id": rid,
                }
            r, (out, broken) = await self.two(
                self.prefill_leg(P, prefill_body(first, offer), path, rid, extra),
                self.events(D + path, {**body, "kv_transfer_params": kv}, rid),
            )
        cached = r["usage"]["prompt_tokens_details"]["cached_tokens"]
        return out, cached, broken

    async def two(self, a, b, after=None):
        ts = [asyncio.ensure_future(a), asyncio.ensure_future(b)]
        try:
            done, _ = await asyncio.wait(ts, return_when=asyncio.FIRST_EXCEPTION)
            for t in ts:
                if t.done():
                    t.result()
            return [t.result() for t in ts]
        except BaseException:
            for t in ts:
                t.cancel()
            await asyncio.gather(*ts, return_exceptions=True)
            if after:
                await after()
            raise

    async def room(self, body, path):
        P = next(self.P)
        D = next(self.D)
        rid = uuid4().hex
        both = {
            **body,
            "bootstrap_host": P["kv_host"],
            "bootstrap_port": P["bootstrap_port"],
            "bootstrap_room": secrets.randbits(63),
            "rid": rid,
        }

        async def p():
            out, broken = await self.events(P["url"] + path, both, rid)
            return next(e["usage"]["prompt_tokens_details"]["cached_tokens"] for e in out if e.get("usage"))

        async def abort():
            for u in (P["url"], D):
                try:
                    await self.client.post(u + "/abort_request", json={"rid": rid})
                except httpx.TransportError:
                    pass

        cached, (out, broken) = await self.two(p(), self.events(D + path, both, rid), abort)
        return out, cached, broken


@pytest.mark.parametrize(
    ("handoff", "check"), [(h, c) for h in ("nixl", "nixl-push", "mooncake", "sglang") for c in checks_for(h)], ids=str
)
async def test_careful(host, handoff, check):
    with cluster(host, handoff, **check.settings()) as made, front_door(host, Careful(made)) as url:
        await check.run(Door(url, made, 6.0))
