"""Reader of COCO instances: https://cocodataset.org/#format-data, "Object Detection".

For semantic and panoptic maps use `segpaste.datasets.formats.coco_panoptic`; captions are not read.
"""

from __future__ import annotations

from functools import cached_property

from segpaste.datasets.formats.coco_index import TABLES, CocoClasses, CocoRecords, make_index
from segpaste.datasets.formats.instances import InstancePhotos
from segpaste.datasets.formats.large_json.photos import IndexedPhotos
from segpaste.datasets.formats.large_json.store import Index
from segpaste.datasets.formats.large_json.tables import JsonTables
from segpaste.datasets.lvis_lists import FederatedLabels


class CocoDetectionV2(IndexedPhotos, InstancePhotos):
    """Images with instances, one `DenseSample` each, in the order of the file's ``images``.

    A sample has image (uint8), boxes that fit their masks tightly (not those of the file), labels, instance ids 1..N,
    instance masks, and keypoints if a category names some. Crowd (``iscrowd``) and ignored (``ignore``) regions are not
    instances. If the file has any, samples have a crowd mask: the union of their masks, or of their boxes where a mask
    is empty. An image without annotations gives N = 0. Annotations with an empty mask are left out with one warning,
    and counted in ``num_empty_masks``.

    LVIS files are read too. An image without ``file_name`` is named by the end of its ``coco_url``, such as
    ``train2017/000000391895.jpg``. `federated` returns the classes that were annotated in an image.

    Args:
        images_dir: the folder to which file names of images are relative.
        annotations_file: the JSON file.
        transforms: called with each `DenseSample`; its result replaces the sample.

    Attributes:
        class_names: the name of each class; labels index it.
        category_ids: the id of each class in the file, ascending; these may have gaps, labels have none.
        keypoint_schema: names of the keypoints; None without keypoints.
        has_crowds: True if samples have a crowd mask.

    Raises:
        DatasetError: the folder is missing, or the file is missing, broken or incomplete.
    """

    category_ids: tuple[int, ...]

    @cached_property
    def _records(self) -> CocoRecords:
        return self._read_records()

    def instance_labels(self, index: int) -> tuple[int, ...]:
        """Return the class of each annotation except crowds, from the file alone; no image or mask is read.

        Annotations with an empty mask are included, although they are not instances.
        """
        return tuple(self._records.labels(index, instances=True))

    def left_out(self, index: int) -> dict[str, int]:
        """Count the annotations of a read image that are not instances: ``crowd`` or ignored, ``empty`` masks."""
        num_empty = sum(row_id in self._empty_ids for row_id in self._records.ids(index, crowds=False))
        return {"crowd": len(self._records.ids(index, crowds=True)), "empty": num_empty}

    def federated(self, index: int) -> FederatedLabels | None:
        """Return the classes that were annotated in the image, or None if the file does not say."""
        named = self._records.class_lists(self._records.image_row(index))
        if named["negative"] is None:
            return None
        positive = set(self._records.labels(index, instances=False))
        lists = positive, named["negative"], named["not_exhaustive"] or []
        return FederatedLabels(*(tuple(sorted(labels)) for labels in lists))

    def _read_records(self) -> CocoRecords:
        made: list[CocoClasses] = []

        def make(tables: JsonTables) -> Index:
            tables.check_lists(*TABLES)
            made.append(CocoClasses.read(tables.path, tables.rows("categories", TABLES["categories"])))
            tables.check_others(TABLES)
            return make_index(tables, made[0])

        index = self._file.index("instances", make, *TABLES)
        if not made:
            made.append(CocoClasses.read(self.annotations_file, self._file.value(index, "categories")))
        self.category_ids, self.class_names, self.keypoint_schema = made[0].ids, made[0].names, made[0].schema
        self.has_crowds = index.facts["has_crowds"]
        return CocoRecords(self._file, index, made[0])
