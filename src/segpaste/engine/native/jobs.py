"""Jobs, the records that functions of the native library take: numbers, records of the engine, and planes.

``records.hpp`` has a struct for each job. `scripts/write_records.py` writes it from the jobs, so `Job.words` are in the
order of its members.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Annotated, Any, Final, NamedTuple

from torch import Tensor

from segpaste.engine import schema
from segpaste.engine.native.library import address, addresses, call
from segpaste.engine.planes import PLANES, ROWS
from segpaste.engine.record_fields import fields_of, names_of
from segpaste.engine.reference import classmix

SIZES: Final = {
    "B": "num_rows",
    "L": "num_layers",
    "K": "num_slots",
    "K_t": "num_slots",
    "H": "height",
    "W": "width",
    "S": "num_source_rows",
    "K_s": "num_source_slots",
    "H_s": "source_height",
    "W_s": "source_width",
    "C": "num_channels",
    "V": "num_visible",
    "R": "num_regions",
    "H + 1": "region_height",
    "W + 1": "region_width",
}
"""Names in C++ of symbols in shapes; other symbols have the same name there."""


PLANE_WORDS: Final = 5
"""Words of a `Plane`: its address and four strides."""

PLANES_WORDS: Final = (len(PLANES) + 1) * PLANE_WORDS
ROWS_WORDS: Final = len(ROWS)
"""Words of `Planes`, which end with the padding, and of `Rows`."""

_NO_PLANE: Final = (0,) * PLANE_WORDS


class Part:
    """Members of a job that are the fields of a record.

    Args:
        argument: name of the argument, a record or None.
        record: class of the record.
        only: fields that the function needs; by default all of the native backend.
        is_written: whether the function writes the tensors. Tensors that it reads are copied if they are not dense.
        names: names in C++ of fields and symbols, if they differ.
    """

    def __init__(
        self, argument: str, record: type, only: Collection[str] = (), *, is_written: bool = False, **names: str
    ) -> None:
        self.argument, self.record, self.is_written, self.names = argument, record, is_written, names
        self.fields = [f for f in fields_of(record) if "native" in f.backends and f.name in (only or (f.name,))]
        self.members = [names.get(f.name, f.name) for f in self.fields]
        first, *others = [f.name for f in self.fields]
        self._get: Any = attrgetter(first, *others) if others else lambda record: (getattr(record, first),)
        self._absent = (None,) * len(self.fields)

    def of(self, given: Mapping[str, Any]) -> Sequence[Any]:
        """Return the values of the fields: those of a record, None without one, or a list of them as it is."""
        record = given[self.argument]
        if type(record) is list:
            return record
        found: tuple[Any, ...] = self._absent if record is None else self._get(record)
        return found


class Job:
    """A record of int64 words for one function of the library.

    Its members are numbers, sizes, the fields of records that are tensors, sizes of these, fields of records that are
    numbers, structs, and numbers that the library changes, which are zero at first.

    Args:
        function: name of the function.
        struct: name of the struct in C++.
        numbers: names of arguments that are numbers; a comment follows a colon, and a star the name of an address.
        sizes: symbols of shapes that the argument ``sizes`` has. The others are read from the tensors, 0 for None.
        parts: records.
        structs: structs and the arguments that have their words, such as results of `plane_words`.
        state: names of the numbers that the library changes.
    """

    def __init__(
        self, function: str, struct: str, numbers: str, sizes: str, *parts: Part, structs: str = "", state: str = ""
    ) -> None:
        self.function, self.struct, self.state = f"segpaste_{function}", struct, state.split()
        self._state = [0] * len(self.state)
        lines = (line.partition(":") for line in numbers.strip().splitlines())
        self.numbers = [(names.split(), comment.strip()) for names, _, comment in lines]
        given = [name.rstrip("*") for names, _ in self.numbers for name in names]
        self._given = itemgetter("sizes", "sizes", *given)  # of a single name it would return no tuple
        self._symbols = sizes.split()
        self.structs = [(struct, name) for struct, name in (text.split() for text in structs.split(",") if text)]
        self._structs = [name for _, name in self.structs]
        self.rules = [part for part in parts if not part.fields[0].shape]
        self._read = [part for part in parts if not (part.is_written or part in self.rules)]
        self._written = [part for part in parts if part.is_written]
        self.tensors = [*self._read, *self._written]
        self.sizes = [SIZES.get(symbol, symbol) for symbol in self._symbols]
        read: dict[str, tuple[str, int, int]] = {}
        known = {*self.sizes, *(name for part in parts for name in part.members)}
        shapes = ((part.names, field.shape) for part in self.tensors for field in part.fields)
        for index, (names, shape) in enumerate(shapes):
            for axis, symbol in enumerate(map(str, shape)):
                name = names.get(symbol, SIZES.get(symbol, symbol))
                if not (name.isdigit() or name in known):
                    read.setdefault(name, (symbol, index, axis))
        self.read_sizes, self._read_sizes = [*read], [*read.values()]

    def run(self, *arguments: int, **given: Any) -> int:
        """Call the function with the arguments, by name, and return its error code; tensors that are read may be views.

        Args:
            arguments: addresses that the function takes beside the record.
            given: records, whose fields may also be given as a list of tensors and addresses, in their order.
        """
        values = [t.contiguous() if isinstance(t, Tensor) else t for part in self._read for t in part.of(given)]
        for part in self._written:
            values += part.of(given)
        return call(self.function, self._words(given, values), *arguments)

    def words(self, **given: Any) -> list[int]:
        """Return the words of the record; see `run`. Tensors must be dense, and exist until the call."""
        return self._words(given, [value for part in self.tensors for value in part.of(given)])

    def _words(self, given: Mapping[str, Any], values: Sequence[Tensor | int | None]) -> list[int]:
        words: list[int]
        _, sizes, *words = self._given(given)
        words += map(sizes.__getitem__, self._symbols)
        words += addresses(values)
        for symbol, index, axis in self._read_sizes:
            value = values[index]
            words.append(value.shape[axis] if isinstance(value, Tensor) else sizes.get(symbol, 0))
        for part in self.rules:
            words += part.of(given)
        for argument in self._structs:
            words += given[argument]
        words += self._state
        return words


def plane_words(planes: Iterable[Tensor | None]) -> list[int]:
    """Return the words of planes [B, H, W] or [B, C, H, W] with dense lines: addresses, and four strides each."""
    words = list[int]()
    for plane in planes:
        if plane is None:
            words += _NO_PLANE
            continue
        strides = plane.stride()
        words += (address(plane), *(strides if len(strides) == 4 else (strides[0], 0, *strides[1:])))
    return words


class Blank(int):
    """A word that is left open: the index of a value that `Form.filled` is given."""


class Form:
    """Words of a record that are packed once, for calls that differ only in those that are `Blank`.

    Args:
        words: the words; the indices of blanks are those of the values, several blanks may have the same.

    Attributes:
        address: address of the words, of the number of blanks, and of the place and the index of each.
    """

    def __init__(self, words: Sequence[int]) -> None:
        blanks = [(place, int(word)) for place, word in enumerate(words) if isinstance(word, Blank)]
        fixed = [0 if isinstance(word, Blank) else word for word in words]
        self._words = array("q", [*fixed, len(blanks), *chain.from_iterable(blanks)])
        self.address = self._words.buffer_info()[0]


class Candidates(NamedTuple):
    """Rows that layers may take."""

    seeds: Annotated[Tensor, "[B] int64"]
    offers: Annotated[Tensor, "[B] bool"]


class Chances(NamedTuple):
    """Draws of ClassMix, and their probabilities."""

    seeds: Annotated[Tensor, "[B] int64"]
    limits: Annotated[Tensor, "[4] int64"]


class Shared(NamedTuple):
    """Zeros that the threads of a composition share."""

    readers: Annotated[Tensor, "[B] int64"]
    is_taken: Annotated[Tensor, "[B] int64"]


class NewRows(NamedTuple):
    """Instances of the output in place, while those of the target are still read."""

    boxes: Annotated[Tensor, "[B, K, 4] float32"]
    labels: Annotated[Tensor, "[B, K] int64"]
    ids: Annotated[Tensor, "[B, K] int32"]
    valid: Annotated[Tensor, "[B, K] bool"]


class Cameras(NamedTuple):
    """Intrinsics of metric depth, else None."""

    target_camera: Annotated[Tensor | None, "[B, 4] float32"]
    source_camera: Annotated[Tensor | None, "[S, 4] float32"]


SURVEY = Job(
    "survey",
    "SurveyJob",
    """
    ignore_index
    whole_only: whether instances that touch the border of their image may not be pasted
    """,
    "B K H W",
    Part("found", schema.Survey, is_written=True, num_classes="num_mixed"),
    Part("classes", schema.Classes, ("is_thing", "is_stuff"), num_things="num_classes"),
    structs="Rows rows, Plane padding, Plane semantic",
)

CHOOSE_ROWS = Job(
    "rows",
    "RowsJob",
    "",
    "B L",
    Part("candidates", Candidates),
    Part("rows", schema.LayerRows, is_written=True),
)

DRAW = Job(
    "draw",
    "DrawJob",
    "pick: a Pick; rows that are given are read",
    "B K_s",
    Part("targets", schema.Targets),
    Part("sources", schema.Sources, extent="source_extent"),
    Part("tables", schema.DrawTables),
    Part("rules", schema.DrawRules),
    Part("placement", schema.Placement, is_written=True, scale_den="scale_den_out"),
    Part("counts", schema.PlacementCounts, is_written=True),
)

DRAW_CLASSES = Job(
    "draw_classes",
    "MixtureJob",
    "",
    "B L K H W num_classes",
    Part("chances", Chances),
    Part("found", schema.Survey, ("num_free", "eligible", "present")),
    Part("layer_rows", schema.LayerRows),
    Part("mixture", schema.Mixture, ("classes",), is_written=True),
    Part("placement", schema.Placement, ("carried",), is_written=True),
    Part("counts", schema.PlacementCounts, classmix.COUNTED, is_written=True),
    structs="Planes planes, Rows rows",
)

COMPOSE = Job(
    "compose",
    "ComposeJob",
    """
    pixel_kind: a PixelKind
    largest_id: ids in the target above this count as this
    exclusive: each pixel belongs to exactly one instance
    with_owner: a requested field needs the owner (source slot) of each pasted pixel
    has_fragment: sources have a slot more than rows, which belongs to no instance and takes no row
    in_place: ``out`` is the target
    reads_itself: the source is the target, row by row
    shares_memory: the source lies in the target's memory, in whatever order
    num_threads
    readers*: [B] zeros, in place: by how many layers a row is still read
    is_taken*: [B] zeros, in place: whether a thread works on it
    """,
    "B L K K_s S C H W H_s W_s V",
    Part("outcome", schema.Outcome, is_written=True, num_gone="dropped", visible_layer="layer"),
    Part("placement", schema.Placement, {*names_of(schema.Placement)} - {"layer_valid"}, carried="drawn"),
    Part("rules", schema.PasteRules),
    Part("classes", schema.Classes),
    Part("mixture", schema.Mixture, num_classes="num_mixed", classes="mixed_classes", eligible="mixed_eligible"),
    Part("cameras", Cameras),
    structs="Planes target, Planes source, Planes out, Rows target_rows, Rows source_rows, Rows out_rows",
    state="check_state next_row num_read error",
)

STEP = Job("step", "StepJob", "", "", structs="SurveyJob survey, DrawJob draw, ComposeJob compose")
"""A survey, the draws and the composition, which reads and writes the same tensors."""
