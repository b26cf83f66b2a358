/* The parameters that solvers leave to tuning. */
#ifndef CLATTN_SRC_SOLVE_PARAMETER_H
#define CLATTN_SRC_SOLVE_PARAMETER_H

#include <stddef.h>
#include <stdint.h>

enum {
    MAX_PARAMETERS = 16,
    MAX_VALUES = 10,
    BY_THUMB = -1,       /* of a point: the heuristic's value */
    TILE_OPEN = BY_THUMB /* of tiles: not chosen yet */
};

/* One number: a field of the solver's tiles. */
struct parameter {
    const char *name;               /* "scan.block_v" */
    uint64_t kernels;               /* of solvers in src/kernel, bits 1 << KERNEL_…: those whose tiles have it */
    uint16_t field;                 /* offset in the tiles */
    int16_t values[MAX_VALUES + 1]; /* worth trying, rising; closed by BY_THUMB */
};

struct space {
    const char *name;                   /* the solver's */
    const struct parameter *parameters; /* closed by a row without name */
    int64_t tuned_rows;                 /* tokens of the sequences that it is tuned with */
    int64_t tuned_keys; /* and tokens of their keys; 0: as many. Not 0: lengths say nothing of when it is chosen */
    int engine;         /* whether it computes on a matrix engine */
    int format;         /* raised when a parameter changes its meaning: what was measured before is not used then */
};

/* A point of a solver's space. */
struct tuned {
    const struct space *space;
    int values[MAX_PARAMETERS]; /* of space->parameters; BY_THUMB: the heuristic's */
};

/* All by heuristic. */
struct tuned tuned_default(const struct space *space);
/* Sets a parameter by name; 0 when the space has none of that name, or the value is none of its. */
int tuned_set(struct tuned *tuned, const char *name, int value);
/* Tiles of that many bytes that are TILE_OPEN but for what the point says; which may be NULL. */
void tuned_tiles(const struct tuned *tuned, void *tiles, size_t size);
/* Copies those of the given tiles that are not TILE_OPEN over the heuristic's; returns whether there are any. */
int take_tiles(void *tiles, const void *given, size_t size);
int tuned_is_default(const struct tuned *tuned);
/* How many points the space has, those that fit nothing too. */
double space_points(const struct space *space);
/* Whether value is one of the parameter's. */
int parameter_has(const struct parameter *parameter, int value);

/* A row of a solver's parameters: PARAMETER_ROW("rows", struct rms_norm_tiles, tokens, 1, 2, 4) */
#define PARAMETER_ROW(name, tiles, field, ...)                                                                         \
    {                                                                                                                  \
        name, 0, offsetof(tiles, field),                                                                               \
        {                                                                                                              \
            __VA_ARGS__, BY_THUMB                                                                                      \
        }                                                                                                              \
    }
#define PARAMETERS_END                                                                                                 \
    {                                                                                                                  \
        NULL, 0, 0,                                                                                                    \
        {                                                                                                              \
            BY_THUMB                                                                                                   \
        }                                                                                                              \
    }

#endif
