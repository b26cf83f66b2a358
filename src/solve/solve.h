/* A solver: one way to compute a problem, as a module. It owns its tiles, what it derives from them, and its recipe; the
 * list in list.c is all that names it. */
#ifndef CLATTN_SRC_SOLVE_H
#define CLATTN_SRC_SOLVE_H

#include "base/text.h"
#include "device/engine.h"
#include "solve/builder.h"
#include "solve/parameter.h"

/* What a solver may know of the device that it is asked for. */
struct device_facts {
    const struct device *device;
    const struct engine *engine; /* the matrix engine that kernels may use; NULL: none */
    int most_group;              /* work-items of a group, at most */
    int teamless;                /* whether the engine's sub-groups must not multiply in teams: the probe has failed */
};

/* Of two solvers that are preferred the one that is later here. */
enum preference {
    PREFERENCE_NONE,
    PREFERENCE_IN_MODE, /* to solvers of its mode, where nothing was measured, */
    PREFERENCE_LOW,     /* and to all others, where besides no mode and no chunk are asked for, */
    PREFERENCE_HIGH,    /* likewise, */
    PREFERENCE_FIRST    /* and whatever was measured */
};

/* Whether a solver's sub-groups multiply in teams, and so what is probed of the engine before its recipe is made. */
enum team_use {
    TEAM_NEVER,
    TEAM_IF_RIGHT, /* where teams pass their probe, */
    TEAM_ALWAYS    /* or else the solver is not used */
};

struct solver {
    struct space space; /* name, parameters that tuning may choose, their format, and the lengths to tune at */
    clattn_mode mode;
    int rank; /* solvers of a higher rank are tried first */
    int old;  /* one of src/kernel, which has none of what follows */
    enum team_use team;
    int shared; /* for devices whose work-items share a tile: nobody else is offered it, unless for a matrix engine */
    int units;  /* v may be unit vectors: the attention matrix (PASS_ATTENTION) */
    const void *variant; /* what tells apart solvers that share these functions */
    size_t tiles_size;   /* of its struct of tiles: ints only */
    size_t shape_size;   /* of its struct of what follows from them */
    /* Whether the solver should be tried before those of a higher rank; NULL: never. */
    enum preference (*prefers)(const struct device_facts *facts, const struct problem *problem);
    int (*applies)(const struct solver *solver, const struct device_facts *facts, const struct problem *problem);
    /* Fills the tiles that are TILE_OPEN and corrects the others, so that equal tiles are equal points. It alone looks at
     * lengths, batch, heads and compute units. UNSUPPORTED where nothing fits the device. */
    clattn_status (*choose_tiles)(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles);
    /* All that follows from rule, types, options, key and value dims and tiles: kernels' constants, headers and local
     * arrays. UNSUPPORTED where local memory does not hold them. */
    clattn_status (*derive_shape)(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape);
    /* The fewest tokens that reach every part of the kernels, and the chunk that a plan tells its caller. */
    struct reach (*reach)(const struct problem *problem, const void *shape);
    /* Adds steps to a builder's recipe. OUT_OF_MEMORY, or the status of a child; nothing else. */
    clattn_status (*recipe)(struct builder *builder, const struct problem *problem, const void *shape);
    /* What follows the name of the recipe's step-th own kernel, products aside, in a plan's description: a line's
     * end. */
    void (*describe)(struct text *text, const void *shape, int step);
};

/* A solver's lengths. */
struct reach {
    int64_t chunk; /* tokens that are worked at once */
    int64_t parts; /* of a sequence, each of which must have chunks; 1 */
    int64_t keys;  /* of a list: how many are worked at once; 0 */
    int64_t told;  /* the chunk that a plan tells its caller, where it is another: 1 of what works tokens one by one, a
                      learner's batch; 0 */
};

/* The modules, closed by NULL (list.c). */
extern const struct solver *const solver_list[];

/* The tiles of a point, or the heuristic's where tuned is NULL. UNSUPPORTED where the device cannot have them. */
clattn_status solver_tiles(const struct solver *solver, const struct device_facts *facts, const struct problem *problem,
                           const struct tuned *tuned, void *tiles);
/* Tiles, and the shape that follows from them: whether the solver can compute the problem, as far as is known without a
 * compiler. tiles and shape have room for the solver's. */
clattn_status solver_fits(const struct solver *solver, const struct device_facts *facts, const struct problem *problem,
                          const struct tuned *tuned, void *tiles, void *shape);
/* The same of the heuristic's tiles, which nobody needs. */
int solver_can(const struct solver *solver, const struct device_facts *facts, const struct problem *problem);
/* What parameters come to in the tiles; TILE_OPEN where a value is none of a parameter's. */
struct tuned solver_explicit(const struct solver *solver, const void *tiles);

/* Puts tiles that tuning has chosen, which are not TILE_OPEN, in the place of the heuristic's; how many there are. Both
 * are structs of that size, of ints. */
int tiles_take(void *tiles, const void *chosen, size_t size);

/* Whether a work-item should have a tile for itself. */
static inline int is_serial(const struct device_facts *facts)
{
    return facts->device->serial || facts->most_group < 4;
}

/* Whether there is an engine whose sub-groups may multiply in teams. */
static inline int has_teams(const struct device_facts *facts)
{
    return facts->engine != NULL && facts->engine->team != FILE_nothing && !facts->teamless;
}

/* Whether the device takes such groups. */
int group_fits(const struct device_facts *facts, int group);

/* Sets a tile that is open. */
static inline void default_to(int *tile, int64_t value)
{
    if (*tile == TILE_OPEN)
        *tile = (int)value;
}

#endif
