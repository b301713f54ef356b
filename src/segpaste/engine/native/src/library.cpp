// Entry points for Python, and the choice of the instruction set. Code here must run on the baseline.

#include <stddef.h>

#include "functions.hpp"

#define EXPORT __attribute__((visibility("default")))

extern "C" {

void* malloc(size_t size);
void free(void* block);

#if defined(__x86_64__)
extern const Functions segpaste_v2;
extern const Functions segpaste_v3;
extern const Functions segpaste_v4;
#else
extern const Functions segpaste_baseline;
#endif

// The digest of the sources that the library was built from, and the sizes of the records: Python compares the
// digest, a test the sizes.
EXPORT extern const char segpaste_digest[] = SEGPASTE_DIGEST;
EXPORT extern const int64_t segpaste_sizes[6] = {
    sizeof(SurveyJob), sizeof(DrawJob), sizeof(ComposeJob), sizeof(RowsJob), sizeof(MixtureJob), sizeof(StepJob),
};
EXPORT extern const int64_t segpaste_window_sizes[4] = {
    sizeof(ImageJob), sizeof(PlanesJob), sizeof(RunsJob), sizeof(CutJob),
};

#if defined(__x86_64__)

static void cpuid(uint32_t leaf, uint32_t subleaf, uint32_t* registers) {
    __asm__ volatile("cpuid"
                     : "=a"(registers[0]), "=b"(registers[1]), "=c"(registers[2]), "=d"(registers[3])
                     : "a"(leaf), "c"(subleaf));
}

static uint32_t enabled_states() {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static bool has_all(uint32_t flags, uint32_t wanted) { return (flags & wanted) == wanted; }

// The level of x86-64 that processor and operating system offer, 1 to 4.
static int64_t level() {
    uint32_t basic[4], most[4], extended[4], features[4] = {0, 0, 0, 0};
    cpuid(0, 0, most);
    cpuid(1, 0, basic);
    if (most[0] >= 7) cpuid(7, 0, features);
    cpuid(0x80000001u, 0, extended);
    // SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT; LAHF.
    if (!has_all(basic[2], 1u | 1u << 9 | 1u << 13 | 1u << 19 | 1u << 20 | 1u << 23) || !(extended[2] & 1u)) return 1;
    // FMA, MOVBE, OSXSAVE, AVX, F16C; BMI1, AVX2, BMI2; LZCNT; the system keeps the wide registers.
    if (!has_all(basic[2], 1u << 12 | 1u << 22 | 1u << 27 | 1u << 28 | 1u << 29)) return 2;
    if (!has_all(features[1], 1u << 3 | 1u << 5 | 1u << 8) || !(extended[2] & 1u << 5)) return 2;
    if (!has_all(enabled_states(), 0x6u)) return 2;
    // AVX-512 F, DQ, CD, BW, VL.
    if (!has_all(features[1], 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31)) return 3;
    return has_all(enabled_states(), 0xe6u) ? 4 : 3;
}

static const Functions* functions_of(int64_t wanted) {
    return wanted >= 4 ? &segpaste_v4 : wanted == 3 ? &segpaste_v3 : wanted == 2 ? &segpaste_v2 : nullptr;
}

#else

static int64_t level() { return 2; }

static const Functions* functions_of(int64_t wanted) { return wanted >= 2 ? &segpaste_baseline : nullptr; }

#endif

using Parallel = void (*)(void (*function)(void*), void* data, unsigned num_threads, unsigned flags);

static const Functions* chosen = nullptr;

// The level of the processor: 2 is the least that the library runs on; 3 and 4 are those of x86-64.
EXPORT int64_t segpaste_level() { return level(); }

// Run the functions of a level, at most the processor's; returns 0, or 1 where there are none.
EXPORT int64_t segpaste_choose(int64_t wanted) {
    chosen = wanted <= level() ? functions_of(wanted) : nullptr;
    return chosen ? 0 : 1;
}

// Memory of one thread, kept from step to step; null where there is none.
EXPORT void* segpaste_workspace() {
    constexpr size_t SIZE = 128;
    auto bytes = static_cast<unsigned char*>(malloc(SIZE));
    for (size_t i = 0; bytes && i < SIZE; ++i) bytes[i] = 0;
    return bytes;
}

// The first word of each arena in a workspace is its last chunk, the first word of a chunk the one before it.
EXPORT void segpaste_free_workspace(void* workspace) {
    if (!workspace) return;
    for (size_t arena = 0; arena < 2; ++arena) {
        void* chunk = *reinterpret_cast<void**>(static_cast<unsigned char*>(workspace) + arena * 24);
        while (chunk) {
            void* before = *static_cast<void**>(chunk);
            free(chunk);
            chunk = before;
        }
    }
    free(workspace);
}

EXPORT int64_t segpaste_survey(const SurveyJob* job) {
    chosen->survey(job);
    return 0;
}

EXPORT int64_t segpaste_rows(const RowsJob* job, void* workspace) { return chosen->rows(job, workspace); }

EXPORT int64_t segpaste_draw(const DrawJob* job, void* workspace) { return chosen->draw(job, workspace); }

EXPORT int64_t segpaste_draw_classes(const MixtureJob* job, void* workspace) {
    return chosen->draw_classes(job, workspace);
}

// The threads of one step. The n-th to join takes the n-th workspace.
struct Team {
    ComposeJob* job;
    void* const* workspaces;
    int64_t num_joined;
};

static void join(void* data) {
    auto team = static_cast<Team*>(data);
    int64_t n = __atomic_fetch_add(&team->num_joined, 1, __ATOMIC_RELAXED);
    if (n < team->job->num_threads) chosen->compose(team->job, team->workspaces[n]);
}

// ``parallel`` runs a function on up to so many threads, the caller among them, like OpenMP's `GOMP_parallel`.
EXPORT int64_t segpaste_compose(ComposeJob* job, void* const* workspaces, Parallel parallel) {
    Team team = {job, workspaces, 0};
    if (job->num_threads > 1) {
        parallel(join, &team, static_cast<unsigned>(job->num_threads), 0);
    } else {
        join(&team);
    }
    return job->error;
}

// Survey, draw and compose, each from what those before it wrote.
//
// ``form`` has the words of a `StepJob`, then the number of its blanks, then for each its place, and which of the values
// belongs there. Returns the number of pastes in the output, or minus an error.
EXPORT int64_t segpaste_step(const int64_t* form, const int64_t* values, void* const* workspaces, Parallel parallel) {
    constexpr size_t NUM_WORDS = sizeof(StepJob) / sizeof(int64_t);
    int64_t words[NUM_WORDS], num_blanks = form[NUM_WORDS];
    const int64_t* blanks = form + NUM_WORDS + 1;
    for (size_t i = 0; i < NUM_WORDS; ++i) words[i] = form[i];
    for (int64_t i = 0; i < num_blanks; ++i) words[blanks[2 * i]] = values[blanks[2 * i + 1]];
    StepJob job;
    __builtin_memcpy(&job, words, sizeof job);
    for (int64_t b = 0; b < job.compose.num_rows; ++b) job.compose.readers[b] = job.compose.is_taken[b] = 0;
    chosen->survey(&job.survey);
    int64_t error = chosen->draw(&job.draw, workspaces[0]);
    if (error == NO_ERROR) error = segpaste_compose(&job.compose, workspaces, parallel);
    if (error != NO_ERROR) return -error;
    const ComposeJob& done = job.compose;
    int64_t num_slots = done.num_rows * done.num_layers * done.num_source_slots, num_carried = 0;
    for (int64_t i = 0; i < num_slots; ++i) num_carried += done.carried[i];
    return num_carried;
}

EXPORT int64_t segpaste_read_image(const ImageJob* job, void* workspace) { return chosen->read_image(job, workspace); }

EXPORT int64_t segpaste_read_planes(const PlanesJob* job, void* workspace) { return chosen->read_planes(job, workspace); }

EXPORT int64_t segpaste_read_runs(const RunsJob* job, void* workspace) { return chosen->read_runs(job, workspace); }

EXPORT int64_t segpaste_cut_out(const CutJob* job, void* workspace) { return chosen->cut_out(job, workspace); }

}  // extern "C"
