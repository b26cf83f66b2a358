/* A table of timings whose rows are printed as soon as they are done, also into a pipe, and also if an interrupt ends
 * it. */
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
    size_t count; /* of all rows */
    struct table table;
    cJSON *rows; /* the rows that are done: JSON is printed at the end */
    size_t done, failed;
    int ended;          /* all is printed */
    atomic_int stopped; /* stdout is closed, so that more work is useless; read without the lock */
};

/* From here on SIGINT, SIGTERM and SIGHUP print what is missing and end the process. The stream must be static. */
void stream_begin(struct stream *stream, enum format format);
/* Sets the number of rows. */
void stream_expect(struct stream *stream, size_t count);
/* Prints the head, with the peaks. Columns are wide enough for numbers below a million (10,000 if they have more than
 * one decimal) and for each of rows, which it deletes. */
void stream_head(struct stream *stream, const struct column *columns, size_t count, cJSON *rows,
                 const struct target *target, const struct peak *peak);
/* Takes a row with its results and adds ok to it. */
void stream_row(struct stream *stream, cJSON *row, int ok);
/* After the last row, or when nobody reads them. EXIT_FAILED if a row failed. */
int stream_end(struct stream *stream);
/* In all cases. Nothing is printed after it. */
void stream_close(struct stream *stream);

#endif
