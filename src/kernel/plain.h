/* The words of the kernels of any device, for the families that put them together. */
#ifndef CLATTN_SRC_PLAIN_H
#define CLATTN_SRC_PLAIN_H

#include "kernel/kernel.h"

/* The header of a list's erase: how keys turn, or how values depend on those before. */
enum embedded_file plain_erase_header(const struct variant *variant);

/* The headers of a list, with words of what its scores weigh. */
void plain_list_headers(const struct variant *variant, enum embedded_file weights, struct layout *layout);
/* The header of what a score of a list weighs. */
enum embedded_file plain_weights(clattn_weights weights);

/* channels cut into slices of at most most, each a multiple of unit, with as little padding as possible. */
int plain_slice(int64_t channels, int most, int unit);

/* The family's, whose tiles plain_tiles.c finds. */
void plain_lay_out(const struct variant *variant, struct layout *layout);
void plain_describe(struct text *text, const struct variant *variant, const struct layout *layout);

/* Of kernels that work a span of chunks: the family's describe. */
void plain_describe_spans(struct text *text, const struct variant *variant, const struct layout *layout);

/* Narrower value tiles, then shorter chunks, then narrower slices, until local memory holds the kernel. */
clattn_status plain_cut_blocks(const struct device *device, struct variant *variant,
                               void (*lay_out)(const struct variant *variant, struct layout *layout));

#endif
