/* A recipe: how a problem is computed, as data. A solver builds it; a plan is a recipe bound to a device. */
#ifndef CLATTN_SRC_RECIPE_H
#define CLATTN_SRC_RECIPE_H

#include "kernel/kernel.h"
#include "tune/space.h"

/* What a recipe may hold beside the operands. */
enum temporary_id {
    TEMPORARY_RECORDS,  /* [slots, heads, record]: what prepare leaves the scan */
    TEMPORARY_ROWS,     /* [slots, heads, …]: rows that prepare leaves what comes after it */
    TEMPORARY_SEGMENTS, /* [sequences, segments, heads, …]: the state that each adds */
    TEMPORARY_AFTER,    /* [key slots, heads, …]: sums of log-decays after each key of a unit */
    TEMPORARY_TURNED_Q, /* like q, in its type: queries that are turned over all tokens up to their own */
    TEMPORARY_TURNED_K, /* the same of k */
    TEMPORARY_COUNT
};

struct temporary {
    int64_t floats; /* 0: not used */
    struct view
        strides; /* in elements of that many bytes, where kernels find it so: [sequence, row, head]; 0: as floats */
    int element;
};

const char *temporary_name(enum temporary_id id);

/* What a kernel's role stands for in a step. */
struct source {
    enum { SOURCE_NONE, SOURCE_OPERAND, SOURCE_TEMPORARY, SOURCE_FIXED } kind;
    int index; /* of the operand or the temporary */
};

/* Groups of the first dimension: a sequence each, or so many chunk slots, of which a call of no tokens may have none,
 * or slots of blocks of keys; or slots, and of no tokens a sequence each. The second has the heads, the third the
 * layout's groups. */
enum grid { GRID_SEQUENCES, GRID_SLOTS, GRID_KEY_SLOTS, GRID_SLOTS_OR_SEQUENCES };

/* One launch of a kernel. */
struct step {
    struct variant variant;
    struct layout layout;
    struct source sources[ROLE_COUNT];
    enum grid grid;
};

struct recipe {
    struct temporary temporaries[TEMPORARY_COUNT];
    struct step *steps; /* recipe_open makes room */
    int step_count;
    int loop_first, loop_last, loop_rows; /* steps that are run again for every so many rows; loop_rows 0: none */
};

/* What a recipe is made for, and by what. */
struct recipe_maker {
    clattn_context *context;
    const struct problem *problem;
    const struct tuned *tuned; /* NULL: rules of thumb */
    const struct recipe *like; /* a recipe of the same kernels whose tiles to take; or NULL */
    int most_group;            /* work-items */
    struct recipe *recipe;
    int dry; /* nothing may be asked of the device: its engine counts as working */
};

/* A variant of the maker's problem, tiles aside. */
struct variant maker_variant(const struct recipe_maker *maker, enum kernel_id kernel);
/* Chooses its tiles: the tuned ones, those of the recipe that this one is like, or by rule of thumb. */
clattn_status maker_tiles(const struct recipe_maker *maker, struct variant *variant);
/* Chooses tiles, lays the kernel out and appends the step, its roles bound to what they stand for in the variant's
 * pass; *step (may be NULL) is the step. */
clattn_status maker_add(const struct recipe_maker *maker, const struct variant *variant, enum grid grid,
                        struct step **step);
/* At least so many floats for a temporary. */
void maker_reserve(const struct recipe_maker *maker, enum temporary_id id, int64_t floats);
/* Room for one of elements of a type, of that many sequences, and how kernels find it. */
void maker_lay(const struct recipe_maker *maker, enum temporary_id id, clattn_dtype dtype, int64_t sequences,
               struct view strides);

/* An empty recipe, in the place of what it was; and what it had given back. OUT_OF_MEMORY. */
clattn_status recipe_open(struct recipe *recipe);
void recipe_close(struct recipe *recipe);

/* The first step of the solver's own. */
const struct step *recipe_first(const struct recipe *recipe);
/* The step that leaves o; where o is read of the state after all tokens, that which leaves this. */
const struct step *recipe_last(const struct recipe *recipe);

/* Its kernel's arguments that nothing stands for, at any call. */
uint64_t step_absent(const struct step *step);

/* Chunks of that many rows that sequences of an extent take at most. */
int64_t recipe_slots(const struct problem *problem, const struct extent *extent, int chunk);

/* The same of their keys, in blocks that begin anywhere. */
int64_t recipe_key_slots(const struct problem *problem, const struct extent *extent, int chunk);

/* A solver of src/kernel. */
struct old_solver {
    const char *name; /* its space's, too */
    /* Fills the maker's recipe. UNSUPPORTED when the device cannot run it. */
    clattn_status (*make)(const struct recipe_maker *maker);
};

/* The same with what the problem has beside its outputs. */
clattn_status solver_make(const struct solver *solver, const struct recipe_maker *maker);
/* That alone, where the solver is a module: the attention matrix of a list whose keys turn, and keys that are carried to the end. */
int solver_has_behind(const struct problem *problem);
clattn_status solver_make_behind(const struct recipe_maker *maker);

extern const struct old_solver old_path, old_path_matrix, old_path_team;

#endif
