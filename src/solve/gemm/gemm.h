/* Matrix products: the ways to compute one, and products among a recipe's steps.
 *
 * D = alpha op(A) op(B) + beta C. A way is a module: a kernel of the library's own with tiles for it, or somebody else's
 * function (CLBlast, the application's callback), which a foreign step calls. GEMM_WAYS below is all that names it. */
#ifndef CLATTN_SRC_SOLVE_GEMM_H
#define CLATTN_SRC_SOLVE_GEMM_H

#include "base/text.h"
#include "op/gemm.h"
#include "solve/builder.h"
#include "solve/parameter.h"

enum { GEMM_MAX_TILES = MAX_PARAMETERS };

/* What follows from tiles. */
struct gemm_shape {
    struct kernel_step step;
    int rows, columns; /* of D that a group has */
    int fixed_rows;    /* the product's rows are compiled in: calls have no fewer */
    int transposed;    /* the kernel computes the product's transpose: op(B)^T op(A)^T */
    /* the fewest m, n and k that reach every part of the kernel */
    struct {
        int64_t m, n, k;
    } reach;
};

struct gemm_way {
    const char *provider;      /* what a plan says of who computes it; several ways may be one provider's */
    const struct space *space; /* what tuning may choose; NULL: nothing */
    int fixed;                 /* built or tried for the sizes that it is chosen for: not taken where sizes vary */
    int teams;                 /* of an engine: its sub-groups multiply together */
    int allocates;             /* allocates scratch memory at a call */
    size_t tiles_size;         /* of its struct of tiles: ints only */
    /* Whether the way is for the product; an engine counts as working. */
    int (*applies)(clattn_context *context, const struct gemm *gemm);
    /* Fills the tiles that are TILE_OPEN, and checks the others; NULL: all may be open. UNSUPPORTED where nothing fits the
     * device. */
    clattn_status (*choose_tiles)(const struct device_facts *facts, const struct gemm *gemm, void *tiles);
    /* What is to be done once ahead of the first call; NULL: nothing. */
    clattn_status (*prepare)(clattn_context *context, const struct gemm *gemm, const void *tiles);
    /* Of a way with a kernel: all that follows from types, flags and tiles. */
    void (*derive_shape)(const struct device_facts *facts, const struct gemm *gemm, const void *tiles,
                         struct gemm_shape *shape);
    /* Puts the product's step in its place in the recipe. */
    void (*add)(struct builder *b, const struct built_product *product);
    /* What follows the kernel's name in a plan's description: a line's end; of a way with a kernel. */
    void (*describe)(struct text *text, const void *tiles, const struct gemm_shape *shape);
    /* Enqueues it; of a way without a kernel. */
    ir_foreign_fn enqueue;
};

/* Every way, a line each, in the order in which they are tried where nothing was measured. */
#define GEMM_WAYS(X)                                                                                                   \
    X(callback)                                                                                                        \
    X(gemv)                                                                                                            \
    X(team)                                                                                                            \
    X(matrix)                                                                                                          \
    X(exact)                                                                                                           \
    X(serial)                                                                                                          \
    X(lanes)                                                                                                           \
    X(clblast)
#define GEMM_WAY_DECLARED(name) extern const struct gemm_way gemm_##name;
GEMM_WAYS(GEMM_WAY_DECLARED)

/* The same, closed by NULL. */
extern const struct gemm_way *const gemm_ways[];
/* The space of that name, "gemm_plain" …; NULL. */
const struct space *gemm_space_find(const char *name);

static inline int gemm_has_kernel(const struct gemm_way *way)
{
    return way->enqueue == NULL;
}

/* A way with its tiles. */
struct gemm_choice {
    const struct gemm_way *way;
    int tiles[GEMM_MAX_TILES];
    struct gemm_shape shape; /* of a way with a kernel */
};

/* Fills choice with the way and its tiles, those of a point or the heuristic's where tuned is NULL. UNSUPPORTED where the
 * device cannot have them. */
clattn_status gemm_choose(struct gemm_choice *choice, const struct gemm_way *way, const struct device_facts *facts,
                          const struct gemm *gemm, const struct tuned *tuned);
/* The same, in groups as large as the device and the heuristic take, or smaller ones. */
clattn_status gemm_choose_any(struct gemm_choice *choice, const struct gemm_way *way, const clattn_context *context,
                              const struct gemm *gemm);
/* The first way that has tiles for the product. Nothing is built or tried. UNSUPPORTED where there is none. */
clattn_status gemm_choose_untried(struct gemm_choice *choice, clattn_context *context, const struct gemm *gemm,
                                  int varies);
enum { GEMM_MOST_GROUP = 256 /* work-items of a group by a heuristic */ };
int gemm_largest_group(const clattn_context *context);

/* ---- Among a recipe's steps ---------------------------------------------------------------------------------------
 */

/* Who chooses the ways of products (implemented by plan/). */
struct planner {
    clattn_context *context;
    const struct log *log;
    /* Chooses a way for the product. varies: calls and turns of loops may have smaller sizes. */
    clattn_status (*choose)(const struct planner *planner, const struct gemm *gemm, int varies,
                            struct gemm_choice *choice);
};

/* A product of a recipe, and what computes it. */
struct built_product {
    int step;
    struct product product;
    clattn_context *context;
    struct gemm gemm; /* at the plan's lengths, of all sequences */
    int varies;       /* whether turns and calls have other sizes */
    struct gemm_choice choice;
};

/* The product of a step; NULL: it is none. */
const struct built_product *built_product_of(const struct built *built, int step);

/* The recipe of a single product. Its operands are GEMM_A …; m is the number of tokens of a call. OUT_OF_MEMORY. */
clattn_status build_gemm(struct builder *b, clattn_context *context, const struct gemm *gemm,
                         const struct gemm_choice *choice);

#endif
