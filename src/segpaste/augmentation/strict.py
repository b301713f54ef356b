"""What all parts of the config are made of: frozen models that refuse what they do not know."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field

Probability = Annotated[float, Field(ge=0.0, le=1.0)]

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class StrictConfig(BaseModel):
    """A frozen model that refuses what it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SavedConfig(StrictConfig):
    """One that loads from and saves to YAML and JSON."""

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a ``.yaml``, ``.yml`` or ``.json`` file.

        Raises:
            ValueError: another suffix, a file that does not parse, or (pydantic) an unknown key or value, named.
        """
        import yaml

        path = Path(path)
        _check_suffix(path)
        try:
            text = path.read_text(encoding="utf-8")
            values = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
        except (yaml.YAMLError, json.JSONDecodeError) as error:
            raise ValueError(f"{path}: expected YAML or JSON, got text that does not parse: {error}") from error
        return cls.model_validate({} if values is None else values)

    def save(self, path: str | Path) -> None:
        """Write a ``.yaml``, ``.yml`` or ``.json`` file that `load` reads back equal."""
        import yaml

        path = Path(path)
        _check_suffix(path)
        if path.suffix == ".json":
            text = self.model_dump_json(indent=2) + "\n"
        else:
            text = yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)
        partial = path.with_name(path.name + ".partial")
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)


def _check_suffix(path: Path) -> None:
    if path.suffix not in (".yaml", ".yml", ".json"):
        raise ValueError(f"{path}: expected a file name ending in .yaml, .yml or .json")


def merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``changes`` over ``values``, level by level; of a model, what was set in it."""
    result = dict(values)
    for key, given in changes.items():
        old, new = result.get(key), given
        if isinstance(old, dict) and isinstance(given, BaseModel):
            new = given.model_dump(exclude_unset=True)
        result[key] = merged(old, new) if isinstance(old, dict) and isinstance(new, dict) else new
    return result


class FrozenMapping(Mapping[_Key, _Value]):
    """An immutable mapping that can be hashed, copied and pickled; its order is that of what it was made from."""

    def __init__(self, values: Mapping[_Key, _Value]) -> None:
        self._values = dict(values)

    def __getitem__(self, key: _Key) -> _Value:
        return self._values[key]

    def __iter__(self) -> Iterator[_Key]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(tuple(self._values.items()))

    def __repr__(self) -> str:
        return f"FrozenMapping({self._values})"
