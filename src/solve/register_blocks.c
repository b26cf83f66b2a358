#include "solve/register_blocks.h"

void add_block_products(struct kernel_step *step, const struct engine *engine)
{
    step_header(step, engine != NULL && engine->exact != FILE_nothing ? engine->exact : FILE_rows_given);
    step_header(step, engine != NULL ? FILE_blocks_engine : FILE_blocks_lanes);
}
