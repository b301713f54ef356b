// The functions of one instruction set, as the dispatcher sees them.

#pragma once

#include "records.hpp"
#include "window/window_records.hpp"

struct Functions {
    void (*survey)(const SurveyJob*);
    int64_t (*rows)(const RowsJob*, void* workspace);
    int64_t (*draw)(const DrawJob*, void* workspace);
    int64_t (*draw_classes)(const MixtureJob*, void* workspace);
    void (*compose)(ComposeJob*, void* workspace);
    int64_t (*read_image)(const ImageJob*, void* workspace);
    int64_t (*read_planes)(const PlanesJob*, void* workspace);
    int64_t (*read_runs)(const RunsJob*, void* workspace);
    int64_t (*cut_out)(const CutJob*, void* workspace);
};
