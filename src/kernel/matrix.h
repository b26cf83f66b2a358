/* The kernels on matrix engines: which headers compose one, and how much it stages, records and keeps (cl/matrix/matrix.clh). */
#ifndef CLATTN_SRC_MATRIX_H
#define CLATTN_SRC_MATRIX_H

#include "kernel/kernel.h"

/* Whether the variant is one of the matrix kernels. */
int matrix_kernel(enum kernel_id id);

/* The headers of cl/ in order, ending with NULL, ahead of the kernel's file. */
enum { MATRIX_HEADERS = 18 };
void matrix_headers(const struct variant *variant, const char *headers[MATRIX_HEADERS]);

enum { MATRIX_TILE = 16 }; /* numbers on a side of what an engine multiplies */

/* Channels, padded to whole tiles of every sub-group that shares them. */
int matrix_width(const struct variant *variant);

int matrix_erasing(const struct variant *variant);

/* Whether sub-groups move their values themselves, and may have several tiles of them. */
int matrix_strips(const struct variant *variant);

/* Whether something is to be prepared of q and k, not factors alone. */
int matrix_reads_rows(const struct variant *variant);

/* The most tokens of a chunk that the words take. */
int matrix_most_chunk(const struct variant *variant);

/* Whether sub-groups of their own may make the output: 2 where they usually do. */
int matrix_readers(const struct variant *variant);

/* Whether the scan makes the scores of a chunk itself, so that they are no part of a record. */
int matrix_scored(const struct variant *variant);

/* Chunks on their way to a group at once. */
int matrix_depth(const struct variant *variant);

size_t matrix_local_bytes(const struct variant *variant);

/* Groups of the third grid dimension, for one head of one sequence or chunk. */
int matrix_groups(const struct variant *variant);

/* Workspace per chunk and head, in floats. */
int64_t matrix_record_floats(const struct variant *variant);
int64_t matrix_row_floats(const struct variant *variant); /* 0 where rows stay in the operands */

/* Workspace per segment and head, in floats: its state, and what it keeps of the one before. */
int64_t matrix_segment_floats(const struct variant *variant);
int64_t matrix_segment_kept_floats(const struct variant *variant);

/* Tiles by rule of thumb; UNSUPPORTED where nothing fits local memory or the engine does not take the problem. */
clattn_status matrix_tiles(const struct device *device, struct variant *variant);

/* What follows from tiles of which some fields were chosen otherwise; UNSUPPORTED where they do not go together. */
clattn_status matrix_complete(const struct device *device, struct variant *variant);

#endif
