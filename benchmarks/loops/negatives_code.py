"""Hard negatives that are code and data: records, tests, boilerplate, logs, encoded bytes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from itertools import count

from benchmarks.loops.lines import lines_of
from benchmarks.loops.prose import Source

LEVELS = ("INFO", "INFO", "INFO", "WARN", "DEBUG", "ERROR")


def _log(rng: Source, size: int) -> str:
    parts = [rng.word() for _ in range(6)]
    says = [rng.text(15, 50).rstrip(".") for _ in range(7)]

    def lines() -> Iterator[str]:
        at = rng.randrange(10**9)
        while True:
            at += rng.randrange(1, 4_000)
            clock = f"{at // 3600000 % 24:02}:{at // 60000 % 60:02}:{at // 1000 % 60:02}.{at % 1000:03}"
            stamp = f"2026-03-{at // 86400000 % 28 + 1:02} {clock}"
            thread, ticket, spent = rng.randrange(16), rng.randrange(10**6), rng.randrange(900)
            what = f"{rng.choice(says)} id={ticket} took {spent} ms"
            yield f"{stamp} {rng.choice(LEVELS)} [{rng.choice(parts)}-{thread}] {what}"

    return lines_of(lines(), size)


def _access_log(rng: Source, size: int) -> str:
    paths = [f"/{rng.word()}/{rng.word()}" for _ in range(9)]

    def lines() -> Iterator[str]:
        for second in count():
            host, size = f"10.0.{rng.randrange(256)}.{rng.randrange(256)}", rng.randrange(9_000)
            clock = f"12/Mar/2026:10:{second // 60 % 60:02}:{second % 60:02} +0000"
            path, status = f"{rng.choice(paths)}?page={rng.randrange(90)}", rng.choice([200, 200, 200, 304, 404])
            yield f'{host} - - [{clock}] "GET {path} HTTP/1.1" {status} {size}'

    return lines_of(lines(), size)


def _csv(rng: Source, size: int) -> str:
    cities = [rng.word().capitalize() for _ in range(9)]
    head = iter(["```csv", "id,name,city,amount,active"])
    rows = (
        f"{n},{rng.word()},{rng.choice(cities)},{rng.randrange(10**5) / 100},{rng.choice(['true', 'false'])}"
        for n in count(1)
    )
    return lines_of(head, 40) + lines_of(rows, size) + "```"


def _json(rng: Source, size: int) -> str:
    def rows() -> Iterator[str]:
        for number in count(1):
            record = {
                "id": number,
                "name": f"{rng.word()} {rng.word()}",
                "price": rng.randrange(9_000) / 100,
                "tags": [rng.word() for _ in range(rng.randrange(3))],
                "stock": rng.randrange(50),
            }
            yield json.dumps(record, indent=2) + ","

    return "```json\n[\n" + lines_of(rows(), size) + "]\n```"


def _sql(rng: Source, size: int) -> str:
    names = [rng.word().capitalize() for _ in range(60)]
    rows = (f"({n}, '{rng.choice(names)}', '{rng.word()}', {rng.randrange(1, 9)})" for n in count(1))
    lines = (f"INSERT INTO orders (id, customer, item, quantity) VALUES {row};" for row in rows)
    return "```sql\n" + lines_of(lines, size) + "```"


def _unit_tests(rng: Source, size: int) -> str:
    subject = rng.word()
    return (
        "```python\n"
        + lines_of(
            (
                f"def test_{rng.word()}_{rng.word()}(self) -> None:\n"
                f"    {subject} = {subject.capitalize()}({rng.randrange(100)}, {rng.randrange(100)})\n"
                f"    result = {subject}.{rng.word()}({rng.randrange(1000)})\n"
                f"    self.assertEqual(result, {rng.randrange(5000)})\n"
                for _ in count()
            ),
            size,
        )
        + "```"
    )


def _accessors(rng: Source, size: int) -> str:
    def members() -> Iterator[str]:
        while True:
            name, kind = rng.word(), rng.choice(["String", "int", "boolean", "long"])
            yield f"    public {kind} get{name.capitalize()}() {{\n        return {name};\n    }}\n"
            yield f"    public void set{name.capitalize()}({kind} {name}) {{\n        this.{name} = {name};\n    }}\n"

    return "```java\n" + lines_of(members(), size) + "```"


def _html(rng: Source, size: int) -> str:
    items = (
        f'  <li class="item">\n    <a href="/{rng.word()}/{n}">{rng.word().capitalize()} {rng.word()}</a>\n'
        f'    <span class="price">${rng.randrange(900)}.00</span>\n  </li>'
        for n in count(1)
    )
    return "```html\n" + lines_of(items, size) + "```"


def _yaml(rng: Source, size: int) -> str:
    services = (
        f"  {rng.word()}-{rng.word()}:\n    image: registry.local/{rng.word()}:{rng.randrange(9)}.{rng.randrange(30)}\n"
        f"    restart: always\n    ports:\n      - {rng.randrange(1024, 65000)}:80\n"
        f"    environment:\n      LOG_LEVEL: info\n      {rng.word().upper()}: {rng.randrange(100)}"
        for _ in count()
    )
    return "```yaml\n" + lines_of(services, size) + "```"


def _stack_traces(rng: Source, size: int) -> str:
    places = [f"{rng.word()}.{rng.word().capitalize()}.{rng.word()}" for _ in range(60)]
    frames = [f"    at com.example.{place}({rng.word().capitalize()}.java:{rng.randrange(900)})" for place in places]

    def lines() -> Iterator[str]:
        while True:
            yield f"java.lang.IllegalStateException: {rng.text(20, 60)} (request {rng.randrange(10**6)})"
            start = rng.randrange(50)
            yield from frames[start : start + rng.randrange(4, 10)]
            yield f"Let me look at the next one. {rng.text(60, 160)}"

    return lines_of(lines(), size)


def _diff(rng: Source, size: int) -> str:
    def hunks() -> Iterator[str]:
        for number in count(1):
            one, two, three = (rng.word() for _ in range(3))
            at = number * 13
            yield f"@@ -{at},7 +{at},7 @@ def {one}(self):\\n     {two} = self.{one}"
            yield f"-    return {three}({two})\\n+    return self.{three}({two}, strict=True)"

    return "```diff\n" + lines_of(hunks(), size) + "```"


def _hex_dump(rng: Source, size: int) -> str:
    return lines_of(
        (
            f"{n * 16:08x}  " + " ".join(f"{rng.choice([0, 0, 0, 255, rng.randrange(256)]):02x}" for _ in range(16))
            for n in count()
        ),
        size,
    )


def _payload(rng: Source, size: int) -> str:
    """Base64, DNA and bits that somebody asked for: no spaces, few letters, and no pattern."""
    told = ""
    while len(told) < size:
        told += rng.choice(
            [
                base64.b64encode(rng.randbytes(1_200)).decode(),
                "".join(rng.choices("ACGT", k=2_000)),
                "".join(rng.choices("01", k=1_500)),
                rng.randbytes(700).hex(),
            ]
        )
        told += f"\n\n{rng.text(80, 240)}\n\n"
    return told


def _assembly(rng: Source, size: int) -> str:
    registers = ("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9")
    verbs = ("mov", "add", "sub", "xor", "cmp", "lea", "imul")

    def lines() -> Iterator[str]:
        for number in count():
            source = rng.choice([rng.choice(registers), f"[rsp+{rng.randrange(0, 256, 8)}]", str(rng.randrange(64))])
            yield f"  {number * 4:06x}:  {rng.choice(verbs):<5} {rng.choice(registers)}, {source}"

    return "```asm\n" + lines_of(lines(), size) + "```"


BODIES: dict[str, Callable[[Source, int], str]] = {
    "log": _log,
    "access log": _access_log,
    "CSV": _csv,
    "JSON records": _json,
    "SQL inserts": _sql,
    "unit tests": _unit_tests,
    "accessors": _accessors,
    "HTML list": _html,
    "YAML services": _yaml,
    "stack traces": _stack_traces,
    "diff": _diff,
    "hex dump": _hex_dump,
    "encoded payloads": _payload,
    "assembly": _assembly,
}
