/* The growing arrays of a recipe. */
#ifndef CLATTN_SRC_IR_GROW_H
#define CLATTN_SRC_IR_GROW_H

#include "ir/ir.h"

/* The array, with room for one more than count elements. NULL: out of memory, and the recipe has failed. */
void *ir_grow(struct ir_recipe *recipe, void *array, int count, size_t size);
ir_expression ir_node(struct ir_recipe *recipe, const struct ir_node *node);

#endif
