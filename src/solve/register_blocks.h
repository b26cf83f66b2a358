/* Register blocks (cl/register_blocks): what every solver with such products has in common. */
#ifndef CLATTN_SRC_SOLVE_REGISTER_BLOCKS_H
#define CLATTN_SRC_SOLVE_REGISTER_BLOCKS_H

#include "solve/solve.h"

enum {
    BLOCKS_VEC = 4,
    BLOCKS_ENGINE_TILE = 16,  /* rows, columns and depth of an engine's product */
    BLOCKS_ENGINE_COLUMNS = 4 /* lanes of a sub-group along its columns */
};

/* Adds the words of products: by multiply-adds where engine is NULL, else by the engine, which multiplies floats. They
 * come before headers that read rows, for an engine has a load of rows of its own. */
void add_block_products(struct kernel_step *step, const struct engine *engine);

#endif
