/* What the kernels that read a list on a matrix engine share: their tiles and their layout. */
#ifndef CLATTN_SRC_FLASH_H
#define CLATTN_SRC_FLASH_H

#include "kernel/matrix.h"

void flash_lay_out(const struct variant *variant, struct layout *layout);

/* The header of what decays add to scores. */
enum embedded_file flash_bias(enum decay decay);

/* Value columns of a group: all, where registers hold their sums. */
void flash_cut_values(struct variant *variant);
/* Fewer keys and stages until local memory and registers hold them; 0 where nothing does. */
int flash_cut_keys(const struct device *device, struct variant *variant);

#endif
