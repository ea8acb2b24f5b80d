"""Other gateways beside thinkgate, in front of the same engines: what each does, and what it costs. `docs/peers.md`."""
