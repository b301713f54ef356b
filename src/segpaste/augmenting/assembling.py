"""Assembly of an augmented dataset: its tables, records, report and gallery, from the notes of its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from segpaste._version import __version__
from segpaste.augmenting import pages as _show
from segpaste.augmenting import sequence as _sequence
from segpaste.augmenting.layouts import writer_of, yaml_keys
from segpaste.augmenting.steps import StepMaker
from segpaste.augmenting.tally import Tally
from segpaste.datasets.formats.carried import carried_tables, without_counts
from segpaste.datasets.formats.references import Copy
from segpaste.datasets.writers.dataset_writer import finish
from segpaste.datasets.writers.format import Losses, SampleRows
from segpaste.datasets.writers.layouts import FOLDERS
from segpaste.workspace import write_whole


def assemble(maker: StepMaker, made: Mapping[str, Any], gallery: int, copied: Sequence[str] = ()) -> Tally:
    """Write the files that cover all images, and return their summary.

    Args:
        maker: the step maker, whose steps are all finished.
        made: entry ``segpaste`` of the tables' info: how this dataset was made.
        gallery: number of images to draw.
        copied: names of the splits that are copied.
    """
    paster, files = maker.paster, maker.files
    tally = Tally(paster.config, paster.reader.jitter is not None)
    _remove_surplus(maker)
    lost = Losses()
    for item in maker.items():
        tally.add(item["shown"])
        lost.update(item.get("losses", {}))
        tally.unreadable |= item["unreadable"]
    categories = without_counts(paster.inputs.categories)
    name = paster.inputs.name
    said = {**made, "files": {n: text for n, text in FOLDERS.items() if (files / n).is_dir()}, **maker.layout.note()}
    info: dict[str, Any] = {"description": f"{name}, augmented by copy-paste", "version": __version__, "segpaste": said}
    others, tally.left_out = carried_tables(paster.inputs.annotated, _copies(maker))
    source_yaml, keys = yaml_keys(paster.inputs, maker.layout)
    tally.left_out += lost + keys
    if tally.left_out:
        said["left_out"] = dict(tally.left_out)
    if source_info := others.pop("info", None):
        info["source_info"] = source_info
    rows = lambda: (SampleRows(**item["rows"]) for item in maker.items())  # noqa: E731
    writer = writer_of(files, paster.inputs, maker.layout, source_yaml)
    finish([writer], [({"info": info, **others}, categories, rows)], Losses(), copied)
    write_whole(files / _sequence.RECORDS, (f"{item['record']}\n".encode() for item in maker.items()))
    pages = (
        _show.report_item(item["shown"], _show.draw(paster.image(i), paster) if i < gallery else ())
        for i, item in enumerate(maker.items())
    )
    _show.write_pages(files, pages, tally, f"segpaste augment {name}")
    return tally


def _copies(maker: StepMaker) -> list[Copy]:
    """Return the written images of the dataset, without those made of backgrounds."""
    inputs = maker.paster.inputs
    own = inputs.annotated
    names = None if own is inputs.photos else {own.file_name(index) for index in range(len(own))}
    images = (item["rows"]["image"] for item in maker.items())
    return [
        Copy(image["segpaste"]["source_image_id"], image["id"], image["file_name"])
        for image in images
        if names is None or image["segpaste"]["source_file_name"] in names
    ]


def _remove_surplus(maker: StepMaker) -> None:
    """Remove the files of surplus images that an earlier run with a larger number left."""
    for folder in (*maker.layout.folders, *FOLDERS):
        for path in (maker.files / folder).glob("*"):
            if path.stem.isdigit() and int(path.stem) > maker.num:
                path.unlink()
