"""Keys that an augmented dataset carries along from its original."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from conversion_world import OTHERS, write_instances

from samples import make_sample
from segpaste.datasets import open_dataset
from segpaste.datasets.contract import Crowd
from segpaste.datasets.formats.carried import carried_annotations, carried_image
from segpaste.datasets.writers.counterparts import WrittenCounterparts
from segpaste.types import Modality
from written import write_image


def test_of_a_file(tmp_path: Path) -> None:
    images_dir, path = write_instances(tmp_path)
    photos = open_dataset(path, images_dir=images_dir)
    assert [carried_image(photos, i) for i in range(2)] == [{"license": 4}, {}]
    found = carried_annotations(photos, 0)
    assert list(found) == [30, 31, 32, 40, 41]
    assert found[30] == {"attributes": {"occluded": True, "maker": "é <&>"}, "score": 0.25, "parts": [1, 2]}
    assert found[40] == found[41] == {}
    assert WrittenCounterparts(photos, [], list).tables() == (OTHERS, {})


def test_written_rows_have_them(tmp_path: Path) -> None:
    """Keys of regions are the writer's own, whatever keys are carried."""
    sample = make_sample(modalities=[Modality.INSTANCE, Modality.SEMANTIC, Modality.PANOPTIC], crowd=True)
    categories = [{"id": i, "name": str(i), "isthing": 1} for i in range(20)]
    num = sample.num_instances
    assert sample.crowd_mask is not None
    crowd = Crowd(9, 1, False, np.asarray(sample.crowd_mask[0]))
    rows = write_image(
        tmp_path,
        1,
        sample,
        categories,
        rows=[{"score": i, "attributes": {"n": i}, "segpaste": {"source": i}, "bbox": [0] * 4} for i in range(num)],
        crowds=[(crowd, {"score": 0.5, "segpaste": {"source": 9}, "iscrowd": 0})],
        more={"license": 4},
    )
    assert rows.image["license"] == 4
    assert rows.segments is not None
    for written in (rows.annotations, rows.segments):
        for i, row in enumerate(written[:num]):
            assert (row["score"], row["attributes"], row["segpaste"]) == (i, {"n": i}, {"source": i})
        assert (written[-1]["score"], written[-1]["segpaste"], written[-1]["iscrowd"]) == (0.5, {"source": 9}, 1)
