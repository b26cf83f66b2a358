/* A plan: a problem, and the launches that compute it on one device. */
#ifndef CLATTN_SRC_PLAN_H
#define CLATTN_SRC_PLAN_H

#include "kernel/kernel.h"
#include "tune/space.h"
#include "base/text.h"

/* The end of the warning that a solver failed its self-test: another is taken. `clattn verify` must not pass then. */
#define SOLVER_TURNED_DOWN "gives wrong results: not used"

/* The workspace, one float buffer: what may stand in it, in the order in which a solver reserves it. */
enum section {
    SECTION_RECORDS,      /* [slots, heads, record]: what prepare leaves the scan */
    SECTION_ROWS,         /* [slots, heads, …]: rows that prepare_matrix leaves the scan */
    SECTION_SEGMENTS,     /* [sequences, segments, heads, …]: the state that each adds */
    SECTION_SEGMENT_KEPT, /* [sequences, segments, heads, …]: what a segment keeps of the state before it */
    SECTION_DECAY,        /* [B,H,T]: the stabilised log-decay of mLSTM */
    SECTION_STRENGTH,     /* [B,H,T]: its write strength */
    SECTION_M,            /* [B,H,T]: its stabiliser */
    SECTION_DEN,          /* [B,H,T]: what o is divided by */
    SECTION_COUNT
};

/* What a kernel's role stands for in a launch. */
struct source {
    enum { SOURCE_NONE, SOURCE_OPERAND, SOURCE_SECTION, SOURCE_FIXED } kind;
    int index; /* of the operand or the section */
};

enum grid { GRID_SEQUENCES, GRID_SLOTS };

/* A kernel with its arguments and its grid: {sequences, or chunk slots over those of a group; heads; value
 * tiles} groups. */
struct launch {
    enum kernel_id id;
    cl_kernel kernel;
    struct source sources[ROLE_COUNT];
    enum grid grid;
    struct tiles tiles;
    int value_tiles;
};

enum { MAX_LAUNCHES = 8 };

struct clattn_plan {
    clattn_context *context;
    struct problem problem;
    struct source sources[ROLE_COUNT]; /* of the rule's roles; launches start from it */
    struct launch launches[MAX_LAUNCHES];
    int launch_count;
    int64_t section_at[SECTION_COUNT], section_floats[SECTION_COUNT],
        workspace_floats; /* offsets in floats, and sizes */
    cl_mem head_decay;    /* the log-decays that the rule itself fixes, [heads]; or NULL */
    mutex lock;           /* kernels carry their arguments until enqueued */
    char *description;
    const struct solver *solver;
    struct tuned tuned;         /* what its tiles follow; solver NULL: a rule of thumb */
    const struct tuned *forced; /* during creation: the one point to take; or NULL */
    const clattn_plan *like;    /* during creation: the plan whose solver and tiles to take; or NULL */
    struct hash hash;           /* of its kernels' sources */
};

/* One way to compute a problem. */
struct solver {
    const char *name;
    clattn_mode mode;
    /* Adds its launches. UNSUPPORTED when the device cannot run it. */
    clattn_status (*add)(struct clattn_plan *plan, int most_group, struct text *description);
    const struct parameter *parameters; /* its space; closed by a row without name */
    int64_t tuned_rows;                 /* tokens of the sequences that it is tuned with */
};

extern const struct solver solver_recurrent, solver_chunk_scan, solver_matrix_scan;

/* Every solver, by number; NULL past the last. */
const struct solver *solver_at(int index);
const struct solver *solver_find(const char *name);
enum { MAX_SOLVERS = 8 };

/* clattn_plan_create with exactly the tiles of a point, or with solver and tiles of a plan for a smaller problem of the same
 * kernels; both may be NULL. Such plans are not tested. */
clattn_status plan_create(clattn_plan **plan, clattn_context *context, const clattn_plan_desc *desc,
                          const struct tuned *forced, const clattn_plan *like);

/* Chooses a solver and tiles, builds the launches and the description. */
clattn_status plan_choose(struct clattn_plan *plan);

/* The first time that these kernels meet this device and driver: a short run against the reference. UNSUPPORTED when the
 * results are wrong, which is remembered; DEVICE_ERROR when OpenCL fails, which is not; whatever else keeps the test from running
 * is no failure. */
clattn_status plan_self_test(struct clattn_plan *plan);

/* Forgets the launches and what they reserved. */
void plan_drop_launches(struct clattn_plan *plan);

/* A run of a solver's main kernel: the one that writes o, or before it the one that leaves its denominators. */
struct pass {
    int normalizer;
};

/* The passes that the problem needs, in order; returns their number. */
int plan_passes(const struct clattn_plan *plan, struct pass passes[2]);

/* The variant of a kernel for a pass, tiles aside. */
struct variant plan_variant(const struct clattn_plan *plan, enum kernel_id kernel, struct pass pass);

/* The tiles of the launch that comes next: the tuned ones, or those of the plan that this one is like. */
clattn_status plan_tiles(const struct clattn_plan *plan, struct variant *variant, int most_group);

/* Chooses tiles, builds the variant and appends the launch. pass says what o, the states and the value stand for. */
clattn_status plan_add(struct clattn_plan *plan, struct variant *variant, struct pass pass, enum grid grid,
                       int most_group, struct text *description);

/* Chunks of that many rows that sequences of an extent take at most. */
int64_t plan_slots(const struct problem *problem, const struct extent *extent, int chunk);

/* Reserves floats of workspace for a section: the most of what is asked for, where passes share one. */
void plan_reserve(struct clattn_plan *plan, enum section section, int64_t floats);
/* Where the section ends with what it is rounded up by, in floats. */
int64_t plan_section_end(const struct clattn_plan *plan, int section);
/* The sections that have an entry a token and head. */
void plan_reserve_rows(struct clattn_plan *plan);

/* Binds and enqueues: the rest of clattn_enqueue. */
clattn_status launch_all(struct clattn_plan *plan, cl_command_queue queue, const clattn_operands *operands,
                         uint32_t n_wait, const cl_event *wait, cl_event *event);
/* The same on a queue in order, waiting for nothing, with an event of every launch: each has launch_count elements, NULL. */
clattn_status launch_each(struct clattn_plan *plan, cl_command_queue queue, const clattn_operands *operands,
                          cl_event *each);

#endif
