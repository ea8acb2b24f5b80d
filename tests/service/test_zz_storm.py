from tests.service.test_zz_careful import *
from tests.doubles.pair.faults import *
from tests.service.pairing import *
import httpx


@pytest.mark.parametrize("handoff", ["nixl", "nixl-push", "mooncake", "sglang"])
async def test_storm(host, handoff):
    sg = handoff == "sglang"
    kp, kd = (SGLANG_PREFILL, SGLANG_DECODE) if sg else (PREFILL, DECODE)
    skip = {"bootstrap_fails"}
    fp, fd = Faults.each(kp - skip, 0.02, 1), Faults.each(kd - {"garbage"}, 0.02, 2)
    with (
        cluster(host, handoff, prefills=2, decodes=2, prefill={"faults": fp}, decode={"faults": fd}) as made,
        front_door(host, Careful(made)) as url,
    ):
        sem = asyncio.Semaphore(40)

        async def one(i):
            async with sem:
                b = question(made, f"s{i}")
                try:
                    told = await stream(url, b)
                except httpx.HTTPError as e:
                    return repr(e)
                if told.status == 200 and not told.errors:
                    assert text(told) in (says(made.key(b)), says(f"local.s{i}")), i
                    return "ok"
                return told.status if not told.errors else "error"

        from collections import Counter

        print(
            handoff,
            Counter(await asyncio.gather(*(one(i) for i in range(300)))),
            fp.struck,
            fd.struck,
            made.fabric.ends,
        )
        print(made.violations)
        for d in made.workers:
            d.violations.clear()
        await made.settled()
