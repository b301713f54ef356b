// Everything, compiled once for each instruction set: the build defines SEGPASTE_NAMESPACE and SEGPASTE_FUNCTIONS.

#include "compose.hpp"
#include "draws.hpp"
#include "functions.hpp"

namespace SEGPASTE_NAMESPACE {

static void survey_all(const SurveyJob* job) { survey(*job); }

static int64_t rows_all(const RowsJob* job, void* workspace) {
    Arena& arena = static_cast<Workspace*>(workspace)->work;
    Mark before = mark(arena);
    auto twins = take<i64>(arena, job->num_rows);
    if (twins) choose_rows(*job, twins);
    release(arena, before);
    return twins ? NO_ERROR : OUT_OF_MEMORY;
}

static int64_t draw_all(const DrawJob* job, void* workspace) { return draw(*job, static_cast<Workspace*>(workspace)->work); }

static int64_t compose_some(ComposeJob* job, void* workspace) {
    return compose(*job, *static_cast<Workspace*>(workspace));
}

}  // namespace SEGPASTE_NAMESPACE

extern "C" const Functions SEGPASTE_FUNCTIONS = {
    SEGPASTE_NAMESPACE::survey_all,
    SEGPASTE_NAMESPACE::rows_all,
    SEGPASTE_NAMESPACE::draw_all,
    SEGPASTE_NAMESPACE::compose_some,
};
