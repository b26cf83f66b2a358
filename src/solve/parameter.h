/* The tuning parameters of solvers. */
#ifndef CLATTN_SRC_SOLVE_PARAMETER_H
#define CLATTN_SRC_SOLVE_PARAMETER_H

#include <stddef.h>
#include <stdint.h>

enum {
    MAX_PARAMETERS = 16,
    MAX_VALUES = 10,
    BY_HEURISTIC = -1,       /* in a point: the heuristic chooses */
    TILE_OPEN = BY_HEURISTIC /* in tiles: not chosen yet */
};

/* One parameter: a field in the solver's tiles. */
struct parameter {
    const char *name;               /* "scan.block_v" */
    uint16_t field;                 /* its offset in the tiles */
    int16_t values[MAX_VALUES + 1]; /* values worth trying, ascending; closed by BY_HEURISTIC */
};

struct space {
    const char *name;                   /* the solver's name */
    const struct parameter *parameters; /* closed by a row without a name */
    int64_t tuned_rows;                 /* tokens of the sequences that it is tuned on */
    int64_t tuned_keys; /* and their keys; 0: as many as tokens. If it is not 0, the length does not decide whether the
                         * solver is chosen */
    int engine;         /* whether it uses a matrix engine */
    int format;         /* increased when a parameter changes its meaning, which makes older measurements invalid */
};

/* A point of a solver's space: one choice of its parameters. */
struct tuned {
    const struct space *space;
    int values[MAX_PARAMETERS]; /* by space->parameters; BY_HEURISTIC: the heuristic chooses */
};

/* The point in which the heuristic chooses everything. */
struct tuned tuned_default(const struct space *space);
/* Sets a parameter by name. 0: the space has no such parameter, or the parameter does not have this value. */
int tuned_set(struct tuned *tuned, const char *name, int value);
/* Tiles of that many bytes that are TILE_OPEN but for what the point says; which may be NULL. */
void tuned_tiles(const struct tuned *tuned, void *tiles, size_t size);
/* Copies those of the given tiles that are not TILE_OPEN over the heuristic's; returns whether there are any. */
int take_tiles(void *tiles, const void *given, size_t size);
int tuned_is_default(const struct tuned *tuned);
/* The number of points of the space, including those that fit no device. */
double space_points(const struct space *space);
/* Whether the parameter has this value. */
int parameter_has(const struct parameter *parameter, int value);

/* A row of a solver's parameters: PARAMETER_ROW("rows", struct rms_norm_tiles, tokens, 1, 2, 4) */
#define PARAMETER_ROW(name, tiles, field, ...)                                                                         \
    {                                                                                                                  \
        name, offsetof(tiles, field),                                                                                  \
        {                                                                                                              \
            __VA_ARGS__, BY_HEURISTIC                                                                                  \
        }                                                                                                              \
    }
#define PARAMETERS_END                                                                                                 \
    {                                                                                                                  \
        NULL, 0,                                                                                                       \
        {                                                                                                              \
            BY_HEURISTIC                                                                                               \
        }                                                                                                              \
    }

#endif
