/* Kernels as data: what each is called with, what its tiles are, and the sizes, constants and words that follow from
 * them. */
#ifndef CLATTN_SRC_KERNEL_H
#define CLATTN_SRC_KERNEL_H

#include "base/text.h"
#include "device/engine.h"
#include "solve/kernel_step.h"

/* X(role): the buffers that kernels name. Each is bound to an operand, a temporary of the recipe or a plan's own
 * buffer; in a kernel it is a pointer and the long4 NAME_at: offset, batch, token and head strides. */
/* clang-format off */
#define ROLES(X) \
    X(q) X(k) X(v) X(o) X(g) X(p) X(e) X(cu) X(records) X(rows) X(segments) X(turned_q) X(turned_k) X(after) X(sink) \
    X(lse) X(cu_kv) X(lens)
/* Numbers, by value: window is at most the keys there are; given has bits for a sink, a wanted lse, cu_kv, lens and beta;
 * first_row is the first of every sequence that is worked; tail is of keys that none has carried. */
#define KERNEL_NUMBERS(X) \
    X(seq_len) X(sequences) X(scale) X(kv_len) X(window) X(given) X(first_row) X(tail)
/* clang-format on */

enum role {
#define ROLE_ENUM(name) ROLE_##name,
    ROLES(ROLE_ENUM)
#undef ROLE_ENUM
        ROLE_COUNT,
    ROLE_TOLD = ROLE_sink, /* from here on a number of the call tells whether there is one */
    ARGUMENTS_BEGIN = ROLE_COUNT - 1,
#define ARGUMENT_ENUM(name) ARG_##name,
    KERNEL_NUMBERS(ARGUMENT_ENUM)
#undef ARGUMENT_ENUM
        ARG_END
};

enum kernel_id {
    KERNEL_FLASH,
    KERNEL_PREPARE_PATH,
    KERNEL_CARRY_PATH,
    KERNEL_FLASH_PATH,
    KERNEL_FLASH_MATRIX,
    KERNEL_FLASH_TEAM,
    KERNEL_FLASH_SUMS,
    KERNEL_PREPARE_PATH_MATRIX,
    KERNEL_CARRY_PATH_MATRIX,
    KERNEL_FLASH_PATH_MATRIX,
    KERNEL_PREPARE_PATH_TEAM,
    KERNEL_CARRY_PATH_TEAM,
    KERNEL_FLASH_PATH_TEAM,
    KERNEL_FOLD_PATH,
    KERNEL_TURN_PATH,
    KERNEL_COUNT
};

/* How a tile is cut and shared. */
struct tiles {
    int group;        /* work-items that share a tile; may be 1 */
    int vec;          /* floats a work-item works at once: 4 or 16 */
    int chunk;        /* tokens; of the recurrence rows at once */
    int block_k;      /* channels in local memory at once */
    int block_v;      /* value columns of a group */
    int pad;          /* floats after each row of a slice */
    int lanes_k;      /* recurrence: work-items that share a column */
    int sub_group;    /* work-items of a sub-group; 0: the compiler's choice */
    int value_tiles;  /* matrix engines: sub-groups side by side */
    int loaders;      /* matrix engines: sub-groups that only move */
    int span;         /* matrix engines: tiles of value columns of a sub-group */
    int segments;     /* parts of a sequence that are scanned at once */
    int stages;       /* matrix engines: chunks in local memory at once */
    int tokens;       /* lists in register blocks: tokens in local memory at once; other lists: of a span */
    int keys, splits; /* lists: keys worked at once, parts of the keys */
    int step, share;  /* lists on matrix engines: tiles of keys that are worked at once, heads of a group */
};

/* A kernel of a problem on an engine: everything that its source depends on. */
struct variant {
    enum kernel_id kernel;
    const struct problem *problem;
    const struct engine *engine; /* of the matrix kernels; NULL without one */
    int attn;                    /* the pass that leaves the attention matrix: its values are unit vectors */
    struct tiles tiles;
};

/* Value columns of the variant's pass. */
int variant_values(const struct variant *variant);
/* Storage types, as kernels name them: of the gates, and of what the kernel writes for o. */
clattn_dtype variant_gate(const struct variant *variant);
clattn_dtype variant_out(const struct variant *variant);
/* Whether it is one of the kernels that read a list as it lies, whatever was written there before. */
int variant_reads_list(const struct variant *variant);
/* Whether it reads queries and keys that were turned each by itself, normalised before. */
int variant_turned(const struct variant *variant);

/* ---- Layout -------------------------------------------------------------------------------------------------------
 */

/* What follows from a variant and its tiles, computed once: the kernel has its sizes as constants and computes none of
 * them again. */
struct layout {
    struct kernel_step step;
    int value_groups;     /* groups of the third dimension of the grid */
    int head_groups;      /* and of the second; 0: the heads */
    int64_t record, rows; /* floats of the workspace, per chunk and head */
    int64_t segment;      /* per segment and head */
};

static inline void layout_constant(struct layout *layout, const char *name, int64_t value)
{
    step_constant(&layout->step, name, value);
}

static inline void layout_constants(struct layout *layout, const struct number *numbers, size_t count)
{
    step_constants(&layout->step, numbers, count);
}

static inline void layout_locals(struct layout *layout, const char *name, int arrays, int64_t count, int64_t element)
{
    step_locals(&layout->step, name, arrays, count, element);
}

static inline void layout_local(struct layout *layout, const char *name, int64_t count, int64_t element)
{
    step_local(&layout->step, name, count, element);
}

static inline void layout_header(struct layout *layout, enum embedded_file header)
{
    step_header(&layout->step, header);
}

/* What an engine's instructions take of it, bytes a work-item: ENGINE_SCRATCH. */
void layout_scratch(struct layout *layout, const struct variant *variant, int bytes);
/* The words of copies in groups, STAGES - 2 of which stay on their way (cl/engines/copies_grouped.clh). */
void layout_copies(struct layout *layout, const struct engine *engine);
/* The words of so many teams, and what those that compute and those that move take of a unit's registers, where that
 * is not the same */
void layout_team(struct layout *layout, const struct variant *variant, int teams);

/* What every kernel's layout has, then a family's part; and whether the device's local memory holds it. */
struct layout layout_of(const struct variant *variant,
                        void (*lay_out)(const struct variant *variant, struct layout *layout));
int layout_fits(const struct device *device, const struct variant *variant,
                void (*lay_out)(const struct variant *variant, struct layout *layout));

/* A family of kernels: how its tiles are found, and its part of the layout. */
struct family {
    /* Tiles by rule of thumb for groups of at most most_group work-items, such that local memory holds them.
     * UNSUPPORTED where nothing does. */
    clattn_status (*heuristic)(const struct device *device, struct variant *variant, int most_group);
    /* What follows from tiles of which some fields were chosen otherwise. UNSUPPORTED where they do not go together. */
    clattn_status (*complete)(const struct device *device, struct variant *variant);
    void (*lay_out)(const struct variant *variant, struct layout *layout);
    /* What follows a kernel's name in a plan's description: a line's end. */
    void (*describe)(struct text *text, const struct variant *variant, const struct layout *layout);
    int needs_engine;
    int shared; /* for devices whose work-items share a tile: for others built without optimisation */
};

extern const struct family family_plain, family_path, family_flash, family_flash_sums, family_path_matrix,
    family_path_team;

const struct family *kernel_family(enum kernel_id id);
struct layout kernel_layout(const struct variant *variant);

/* Whether the kernel is for rules of that kind of state. */
int kernel_takes(enum kernel_id id, const struct rule *rule);

/* What the kernel is called with. */
const struct kernel_signature *kernel_signature(enum kernel_id id);
/* The role or number that a parameter is by its name; ARG_END: none. */
enum role kernel_role(const struct kernel_parameter *parameter);
enum embedded_file kernel_file(enum kernel_id id); /* of its text */
const char *kernel_name(enum kernel_id id);

#endif
