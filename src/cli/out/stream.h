/* Rows of timings that are printed as they are done, also into a pipe, and what an interrupt leaves of them. */
#ifndef CLATTN_SRC_CLI_OUT_STREAM_H
#define CLATTN_SRC_CLI_OUT_STREAM_H

#include "base/thread.h"
#include "cli/device/peak.h"
#include "cli/out/table.h"
#include "cli/device/target.h"

#include <stdatomic.h>

struct stream {
    enum format format;
    /* ---- Under the lock, which who ends the process never gives back; count and done are written under it ---- */
    mutex lock;
    size_t count; /* rows that there will be */
    struct table table;
    cJSON *rows; /* those that are done: JSON comes whole */
    size_t done, failed;
    int ended;          /* all is printed */
    atomic_int stopped; /* stdout is closed: nothing is worth doing any more; read without the lock */
};

/* From here on SIGINT and its like print what is missing and end the process. The stream outlives them: static. */
void stream_begin(struct stream *stream, enum format format);
/* So many rows there will be. */
void stream_expect(struct stream *stream, size_t count);
/* As wide as numbers below a million (of more than one digit behind the point 10,000), and as every row of rows, which
 * it deletes; then the head, with the peaks. */
void stream_head(struct stream *stream, const struct column *columns, size_t count, cJSON *rows,
                 const struct target *target, const struct peak *peak);
/* The row has its results: ok is added, the row taken. */
void stream_row(struct stream *stream, cJSON *row, int ok);
/* All rows are done, or nobody reads them. EXIT_FAILED where one failed. */
int stream_end(struct stream *stream);
/* In all cases: what was not printed by now never is. */
void stream_drop(struct stream *stream);

#endif
