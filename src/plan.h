/* A plan: a problem, and the launches that compute it on one device. */
#ifndef CLATTN_SRC_PLAN_H
#define CLATTN_SRC_PLAN_H

#include "kernel.h"
#include "text.h"

/* The workspace, one float buffer: what stands in it, in this order. */
enum section {
    SECTION_RECORDS,        /* [slots, heads, record]: what prepare leaves the scan */
    SECTION_ROWS,           /* [slots, heads, …]: rows that prepare_matrix leaves the scan */
    SECTION_SEGMENTS,       /* [sequences, segments, heads, K, V]: states at the ends of segments */
    SECTION_SEGMENT_DECAYS, /* [sequences, segments, heads, K]: what a segment leaves of the state before it */
    SECTION_DECAY,          /* [B,T,H]: the stabilised log-decay of mLSTM */
    SECTION_STRENGTH,       /* [B,T,H]: its write strength */
    SECTION_M,              /* [B,T,H]: its stabiliser */
    SECTION_DEN,            /* [B,T,H]: what o is divided by */
    SECTION_COUNT
};

/* What a kernel's role stands for in a launch. */
struct source {
    enum { SOURCE_NONE, SOURCE_OPERAND, SOURCE_SECTION, SOURCE_FIXED } kind;
    int index; /* of the operand or the section */
};

enum grid { GRID_SEQUENCES, GRID_SLOTS };

/* A kernel with its arguments and its grid: {sequences or chunk slots, heads, value tiles} groups. */
struct launch {
    enum kernel_id id;
    cl_kernel kernel;
    struct source sources[ROLE_COUNT];
    enum grid grid;
    int group, value_tiles, chunk;
};

enum { MAX_LAUNCHES = 8 };

struct clattn_plan {
    clattn_context *context;
    struct problem problem;
    struct source sources[ROLE_COUNT]; /* of the rule's roles; launches start from it */
    struct launch launches[MAX_LAUNCHES];
    int launch_count;
    int64_t section_at[SECTION_COUNT], workspace_floats; /* offsets in floats */
    cl_mem head_decay; /* the log-decays that the rule itself fixes, [heads]; or NULL */
    mutex lock;        /* kernels carry their arguments until enqueued */
    char *description;
};

/* One way to compute a problem. */
struct solver {
    const char *name;
    clattn_mode mode;
    /* Adds its launches. UNSUPPORTED when the device cannot run it. */
    clattn_status (*add)(struct clattn_plan *plan, int most_group, struct text *description);
};

extern const struct solver solver_recurrent, solver_chunk_scan, solver_matrix_scan;

/* A run of a solver's main kernel: the one that writes o, or before it the one that leaves its denominators. */
struct pass {
    int normalizer;
};

/* The passes that the problem needs, in order; returns their number. */
int plan_passes(const struct clattn_plan *plan, struct pass passes[2]);

/* The variant of a kernel for a pass, tiles aside. */
struct variant plan_variant(const struct clattn_plan *plan, enum kernel_id kernel, struct pass pass);

/* Chooses tiles, builds the variant and appends the launch. pass says what o, the states and the value stand for. */
clattn_status plan_add(struct clattn_plan *plan, struct variant *variant, struct pass pass, enum grid grid,
                       int most_group, struct text *description);

/* Chunks of that many rows that sequences of an extent take at most. */
int64_t plan_slots(const struct problem *problem, const struct extent *extent, int chunk);

/* Reserves floats of workspace for a section. */
void plan_reserve(struct clattn_plan *plan, enum section section, int64_t floats);

/* Binds and enqueues: the rest of clattn_enqueue. */
clattn_status launch_all(struct clattn_plan *plan, cl_command_queue queue, const clattn_operands *operands,
                         uint32_t n_wait, const cl_event *wait, cl_event *event);

#endif
