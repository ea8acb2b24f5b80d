"""All pools by the names clients use: a pool's own, its model's, its aliases, and the routed names."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.config import Config
from gateway.edge.errors import model_not_found
from gateway.pools.pool import Pool


@dataclass(frozen=True, slots=True)
class Choice:
    """What a model name leads to: one pool, or two between which the router decides."""

    standard: Pool
    reasoning: Pool

    @property
    def is_routed(self) -> bool:
        return self.standard is not self.reasoning


class Registry:
    def __init__(self, config: Config, pools: dict[str, Pool] | None = None) -> None:
        """`pools`: those of the config, where they are not all new."""
        own = config.own_formats()
        self.pools = {name: Pool(name, pool, own) for name, pool in config.pools.items()} if pools is None else pools
        self._choices: dict[str, Choice] = {}
        for name, pool in self.pools.items():
            for alias in (name, pool.config.model, *pool.config.aliases):
                self._choices[alias] = Choice(pool, pool)
        for name, target in config.routes.items():
            self._choices[name] = Choice(self.pools[target.standard], self.pools[target.reasoning])
        self._listed = [*config.routes, *(pool.config.model for pool in self.pools.values())]

    @property
    def names(self) -> list[str]:
        """The names shown under /v1/models: routes first, then each pool's model."""
        return self._listed

    def find(self, model: str) -> Choice:
        """Raises ApiError (404, `model_not_found`)."""
        choice = self._choices.get(model)
        if choice is None:
            raise model_not_found(model)
        return choice

    def owner(self, model: str) -> str:
        """The pool of a model name, `router` for a routed one. Raises ApiError (404)."""
        choice = self.find(model)
        return "router" if choice.is_routed else choice.standard.name

    def close(self) -> None:
        for pool in self.pools.values():
            pool.close()
