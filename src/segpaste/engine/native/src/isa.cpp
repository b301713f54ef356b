// Everything, compiled once for each instruction set: the build defines SEGPASTE_NAMESPACE and SEGPASTE_FUNCTIONS.

#include "draws/draws.hpp"
#include "draws/mixture.hpp"
#include "draws/survey.hpp"
#include "functions.hpp"
#include "paste/compose.hpp"
#include "window/cut.hpp"
#include "window/runs.hpp"

namespace SEGPASTE_NAMESPACE {

static void survey_all(const SurveyJob* job) {
    survey(*job);
    for (i64 row = 0; job->present && row < job->num_rows; ++row) find_present(*job, row, job->present + row * job->num_mixed);
}

static int64_t rows_all(const RowsJob* job, void* workspace) {
    Arena& arena = static_cast<Workspace*>(workspace)->work;
    Mark before = mark(arena);
    auto twins = take<i64>(arena, job->num_rows);
    if (twins) choose_rows(*job, twins);
    release(arena, before);
    return twins ? NO_ERROR : OUT_OF_MEMORY;
}

static int64_t draw_all(const DrawJob* job, void* workspace) { return draw(*job, static_cast<Workspace*>(workspace)->work); }

static int64_t draw_all_classes(const MixtureJob* job, void* workspace) {
    return draw_classes(*job, static_cast<Workspace*>(workspace)->work);
}

static void compose_some(ComposeJob* job, void* workspace) {
    compose(*job, *static_cast<Workspace*>(workspace));
}

template <class Job>
static int64_t read_window(i64 (*read)(const Job&, Arena&), const Job* job, void* workspace) {
    Arena& arena = static_cast<Workspace*>(workspace)->work;
    Mark start = mark(arena);
    i64 error = read(*job, arena);
    release(arena, start);
    return error;
}

static int64_t read_one_image(const ImageJob* job, void* workspace) { return read_window(reading::read_image, job, workspace); }

static int64_t read_all_planes(const PlanesJob* job, void* workspace) { return read_window(reading::read_planes, job, workspace); }

static int64_t read_one_mask(const RunsJob* job, void* workspace) { return read_window(reading::read_runs, job, workspace); }

static int64_t cut_one_out(const CutJob* job, void* workspace) { return read_window(reading::cut_out, job, workspace); }

}  // namespace SEGPASTE_NAMESPACE

extern "C" const Functions SEGPASTE_FUNCTIONS = {
    SEGPASTE_NAMESPACE::survey_all,
    SEGPASTE_NAMESPACE::rows_all,
    SEGPASTE_NAMESPACE::draw_all,
    SEGPASTE_NAMESPACE::draw_all_classes,
    SEGPASTE_NAMESPACE::compose_some,
    SEGPASTE_NAMESPACE::read_one_image,
    SEGPASTE_NAMESPACE::read_all_planes,
    SEGPASTE_NAMESPACE::read_one_mask,
    SEGPASTE_NAMESPACE::cut_one_out,
};
