/* What the kernels that read a list on a matrix engine share: their tiles and their layout. */
#ifndef CLATTN_SRC_FLASH_H
#define CLATTN_SRC_FLASH_H

#include "kernel/kernel.h"

void flash_lay_out(const struct variant *variant, struct layout *layout);

/* What flash_sums leaves a team's kernel of a unit of keys. */
void flash_lay_out_sums(const struct variant *variant, struct layout *layout);

/* The header of what decays add to scores. */
enum embedded_file variant_bias(const struct variant *variant);

/* And what it has of a block of keys in units of so many. */
void flash_bias_locals(const struct tiles *t, int unit, struct layout *layout);

/* Value columns of a group: all, where registers hold their sums. */
void variant_cut_values(struct variant *variant);
/* Fewer keys and stages until local memory and registers hold them; 0 where nothing does. */
int variant_cut_keys(const struct device *device, struct variant *variant);

#endif
