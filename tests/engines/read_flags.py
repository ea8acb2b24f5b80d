"""Runs inside vLLM's own Python: reads the arguments of launch scripts as `vllm` would, and looks up the names in them.

Takes a JSON object on stdin, from a script's name to its flags, and tells one of what is wrong by name; `null` is fine.
"""

import contextlib
import io
import json
import sys

from vllm.distributed.ec_transfer.ec_connector.factory import ECConnectorFactory
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.reasoning import ReasoningParserManager
from vllm.utils.argparse_utils import FlexibleArgumentParser


def complaint(flags: list[str]) -> str | None:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            given = make_arg_parser(FlexibleArgumentParser()).parse_args(flags)
        validate_parsed_serve_args(given)
    except SystemExit:
        return said.getvalue()[-2000:] or "it ends without a word"
    except (TypeError, ValueError) as error:
        return str(error)
    transfer, encoder = given.kv_transfer_config, given.ec_transfer_config
    names = (
        ("reasoning parser", given.reasoning_parser, ReasoningParserManager.list_registered()),
        ("connector", transfer and transfer.kv_connector, KVConnectorFactory._registry),
        ("encoder's connector", encoder and encoder.ec_connector, ECConnectorFactory._registry),
    )
    unknown = [f"no such {what}: {name}" for what, name, known in names if name and name not in known]
    return "; ".join(unknown) or None


scripts = json.load(sys.stdin)
sys.stdout.write(json.dumps({name: complaint(flags) for name, flags in scripts.items()}) + "\n")
