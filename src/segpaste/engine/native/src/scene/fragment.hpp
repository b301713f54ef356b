// ClassMix: pixels of some classes of a source that belong to no pasted instance.

#pragma once

#include "scene/boxes.hpp"
#include "scene/pictures.hpp"

namespace SEGPASTE_NAMESPACE {

inline bool in_table(const u8* table, i64 size, i64 label) { return label >= 0 && label < size && table[label]; }

// Rows of a batch that classes are taken from.
struct MixedSource {
    const Planes& planes;
    const Rows& rows;
    const u8* eligible;  // [S, K]
    i64 num_slots, num_classes, height, width;

    bool wants(i64 row, i64 k, const u8* classes) const {
        i64 at = row * num_slots + k;
        return eligible[at] && in_table(classes, num_classes, rows.labels[at]);
    }

    // The fragment of the classes [num_classes] within the picture of a row, [extent.height, extent.width].
    void cut_fragment(i64 row, const u8* classes, const Extent& extent, u8* cut) const {
        Picture<const i64> semantic = picture<const i64>(planes.semantic, row), panoptic = picture<const i64>(planes.panoptic, row);
        Picture<const u8> padding = picture<const u8>(planes.padding, row);
        for (i64 y = 0; y < extent.height; ++y) {
            const i64 *label = semantic.at(y), *id = panoptic.data ? panoptic.at(y) : nullptr;
            const u8* pad = padding.data ? padding.at(y) : nullptr;
            u8* line = cut + y * extent.width;
            for (i64 x = 0; x < extent.width; ++x) {
                line[x] = in_table(classes, num_classes, label[x]) && !(id && id[x]) && !(pad && pad[x]);
            }
        }
        for (i64 k = 0; !panoptic.data && k < num_slots; ++k) {
            if (!wants(row, k, classes)) continue;
            Box box = clipped_box(rows.boxes + 4 * (row * num_slots + k), extent.width, extent.height);
            Picture<const u8> mask = picture<const u8>(planes.masks, row, k);
            for (i64 y = box.y1; y < box.y2; ++y) {
                u8* line = cut + y * extent.width;
                for (i64 x = box.x1; x < box.x2; ++x) line[x] &= mask.at(y)[x] ^ 1;
            }
        }
    }
};

}  // namespace SEGPASTE_NAMESPACE
