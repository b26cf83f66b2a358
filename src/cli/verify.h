/* What `clattn verify` checks and how it went. A row is a rule with a type: problems, of which each runs in every mode.
 * This process checks a row, or a worker process whose outcomes come here one by one. */
#ifndef CLATTN_SRC_CLI_VERIFY_H
#define CLATTN_SRC_CLI_VERIFY_H

#include "base/text.h"
#include "base/thread.h"
#include "cli/device/target.h"
#include "cli/io/modes.h"
#include "cli/out/table.h"
#include "cli/process/workers.h"

#include <stdatomic.h>

struct verify_problem {
    char name[160];
    clattn_plan_desc desc;      /* completed */
    const struct check_case *c; /* NULL: a shape of the command line */
};

struct verify_row {
    clattn_rule rule;
    clattn_dtype dtype;
    struct verify_problem *problems;
    size_t problem_count;
    struct modes modes;       /* those of the wanted ones that the rule has */
    size_t cases, failed;     /* outcomes until now */
    double worst;             /* error */
    cJSON *object, *outcomes; /* object gets the outcomes at the end */
    enum { ROW_WAITS, ROW_RUNS, ROW_DONE } state;
};

struct verify {
    const struct settings *settings;
    struct target target;
    struct verify_row *rows;
    size_t row_count;
    struct workers workers;
    double start; /* when the first row began */
    /* ---- Under the lock, which the thread that ends the process never gives back ---- */
    mutex lock;
    size_t done, total, failed; /* outcomes */
    struct table table;
    struct text shown;  /* messages of workers that were printed, a line each */
    int ended;          /* all is printed */
    atomic_int stopped; /* stdout is closed, so that more work is useless; read without the lock */
};

/* How one problem went in one mode. */
struct outcome {
    const char *name;
    clattn_mode mode;
    double error; /* infinite if it did not run */
    double bound;
    clattn_operand_id operand; /* of that error */
    const char *solver;        /* NULL: the reference, or none */
    const char *message;       /* why it did not run, or not as it should; NULL */
};

/* ---- Rows (verify_rows.c). EXIT_OK, or one line and a code ------------------------------------------------------- */

int verify_rows_make(struct verify *verify);
/* Sets each row's modes and drops the rows that have none. */
int verify_rows_choose_modes(struct verify *verify);
void verify_rows_free(struct verify *verify);
/* How many outcomes the row will have, and the problem and mode of one. */
size_t verify_row_size(const struct verify_row *row);
const struct verify_problem *verify_row_problem(const struct verify_row *row, size_t outcome, clattn_mode *mode);

/* ---- Rows in worker processes (verify_workers.c) ----------------------------------------------------------------- */

void verify_rows_share(struct verify *verify, size_t jobs);

/* ---- What is known of rows, and output (verify_print.c). Each takes the lock, but for verify_print_end ----------- */

void verify_row_begin(struct verify *verify, struct verify_row *row);
/* Takes an object of verify_outcome. */
void verify_record(struct verify *verify, struct verify_row *row, cJSON *outcome);
void verify_row_end(struct verify *verify, struct verify_row *row);
cJSON *verify_outcome(const struct outcome *outcome);

/* The head of the table; and, with the lock taken, what could not be printed before the end. */
void verify_print_begin(struct verify *verify);
int verify_print_end(struct verify *verify);
/* Rows that are not done. */
size_t verify_missing(const struct verify *verify);

#endif
