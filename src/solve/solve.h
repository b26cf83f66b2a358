/* A solver: one way to compute a problem. It owns its tiles, its shape (what follows from the tiles) and its recipe.
 * Nothing but the list in list.c refers to it by name. */
#ifndef CLATTN_SRC_SOLVE_H
#define CLATTN_SRC_SOLVE_H

#include "base/text.h"
#include "device/engine.h"
#include "solve/builder.h"
#include "solve/parameter.h"

/* What a solver may know about the device. */
struct device_facts {
    const struct device *device;
    const struct engine *engine; /* the matrix engine that kernels may use; NULL: none */
    int most_group;              /* work-items of a group, at most */
    int teamless;                /* the engine's sub-groups must not multiply in teams, because the probe has failed */
};

/* How much a solver should be preferred to those of a higher rank. If several ask for it, the strongest preference
 * wins. */
enum preference {
    PREFERENCE_NONE,
    PREFERENCE_IN_MODE, /* over solvers of its mode, if nothing was measured */
    PREFERENCE_LOW,     /* over all others, if nothing was measured and the caller asks for no mode and no chunk */
    PREFERENCE_HIGH,    /* the same conditions */
    PREFERENCE_FIRST    /* over all others, even if there are measurements, unless the caller asks for a chunk */
};

/* Whether a solver's sub-groups multiply in teams. It decides what is probed before the solver's recipe is made. */
enum team_use {
    TEAM_NEVER,
    TEAM_IF_RIGHT, /* where teams pass their probe, */
    TEAM_ALWAYS    /* or else the solver is not used */
};

struct solver {
    struct space space; /* name, tuning parameters, their format, and the lengths to tune at */
    clattn_mode mode;
    int rank; /* solvers are tried in descending order of rank */
    enum team_use team;
    int shared;      /* its work-items share a tile: it is tried only on devices that are good at that, or with a matrix
                 * engine */
    int units;       /* v may be unit vectors, which gives the attention matrix (PASS_ATTENTION) */
    int transitions; /* values may be zero and the initial state a unit (PASS_TRANSITION) */
    int backward;    /* it computes the backward pass, or is a step of it */
    int leaves_erased;   /* it can leave what rows erase (problem->leaves_erased) */
    const void *variant; /* tells apart solvers that share these functions */
    size_t tiles_size;   /* the size of its struct of tiles, which has only ints */
    size_t shape_size;   /* the size of its struct of what follows from the tiles */
    /* How much the solver should be preferred to those of a higher rank for the problem. NULL: not at all. */
    enum preference (*prefers)(const struct device_facts *facts, const struct problem *problem);
    int (*applies)(const struct solver *solver, const struct device_facts *facts, const struct problem *problem);
    /* Fills the tiles that are TILE_OPEN and corrects the others, so that equivalent tiles become equal points. No
     * other function looks at lengths, batch, heads and compute units. UNSUPPORTED: nothing fits the device. */
    clattn_status (*choose_tiles)(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles);
    /* Derives the shape from rule, types, options, dims of keys and values, and tiles: the kernels' constants, headers
     * and local arrays. UNSUPPORTED: local memory does not hold the arrays. */
    clattn_status (*derive_shape)(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape);
    /* How many turns of loops a work-item of its longest kernel has, at most: for devices that leave loops after some
     * (device->loop_turns). NULL: few, however long sequences are. */
    int64_t (*turns)(const struct problem *problem, const void *shape);
    /* The smallest lengths that reach every part of the kernels, and the chunk that a plan reports. */
    struct reach (*reach)(const struct problem *problem, const void *shape);
    /* Adds its steps to a builder's recipe. Returns OUT_OF_MEMORY or the status of a child, and no other failure. */
    clattn_status (*recipe)(struct builder *builder, const struct problem *problem, const void *shape);
    /* Writes the rest of the line of its kernel number `step`, not counting products, in the description of a plan. */
    void (*describe)(struct text *text, const void *shape, int step);
};

/* The lengths that a solver's kernels depend on. */
struct reach {
    int64_t chunk; /* tokens that are computed together */
    int64_t parts; /* segments of a sequence, each of which must have chunks; else 1 */
    int64_t keys;  /* for a list: keys that are read together; else 0 */
    /* the chunk that a plan reports if it is not `chunk`: 1 for token by token, a learner's mini-batch; else 0 */
    int64_t reported;
};

/* All solvers of this folder, at most so many, closed by NULL (list.c). */
enum { MOST_SOLVERS = 48 };
extern const struct solver *const solver_list[];

/* The tiles of a point; the heuristic's if `tuned` is NULL. UNSUPPORTED: the device cannot have them. */
clattn_status solver_tiles(const struct solver *solver, const struct device_facts *facts, const struct problem *problem,
                           const struct tuned *tuned, void *tiles);
/* Chooses tiles and derives the shape. This says whether the solver can compute the problem, as far as that is known
 * without a compiler. `tiles` and `shape` have room for the solver's structs. */
clattn_status solver_fits(const struct solver *solver, const struct device_facts *facts, const struct problem *problem,
                          const struct tuned *tuned, void *tiles, void *shape);
/* Whether solver_fits succeeds with the heuristic's tiles, which are discarded. */
int solver_can(const struct solver *solver, const struct device_facts *facts, const struct problem *problem);
/* Whether the device is good at what the solver does. Others are not tried. */
int solver_suits(const struct solver *solver, const struct device *device, const struct engine *engine);
/* The point that gives these tiles. A parameter that does not have a tile's value stays TILE_OPEN. */
struct tuned solver_explicit(const struct solver *solver, const void *tiles);

/* Whether each work-item should have a tile of its own. */
static inline int is_serial(const struct device_facts *facts)
{
    return facts->device->serial || facts->most_group < 4;
}

/* Whether there is an engine whose sub-groups may multiply in teams. */
static inline int has_teams(const struct device_facts *facts)
{
    return facts->engine != NULL && facts->engine->team != FILE_nothing && !facts->teamless;
}

/* Turns of loops of a work-item in a product [m, depth] x [depth, n] of a group (cl/plain/tile.clh). */
int64_t product_turns(int group, int vec, int64_t m, int64_t n, int64_t depth);

/* Whether the device accepts groups of this size. */
int group_fits(const struct device_facts *facts, int group);

/* Sets a tile that is not chosen yet. */
static inline void default_to(int *tile, int64_t value)
{
    if (*tile == TILE_OPEN)
        *tile = (int)value;
}

#endif
