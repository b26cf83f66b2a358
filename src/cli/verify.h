/* What `clattn verify` checks and how it went: rows of problems, each run in every mode. A row is checked by this
 * process or by a worker, which says its outcomes one by one; both come to verify_record. */
#ifndef CLATTN_SRC_CLI_VERIFY_H
#define CLATTN_SRC_CLI_VERIFY_H

#include "base/text.h"
#include "base/thread.h"
#include "cli/io/modes.h"
#include "cli/process/process.h"
#include "cli/out/table.h"
#include "cli/device/target.h"

#include <stdatomic.h>

struct verify_problem {
    char name[160];
    clattn_plan_desc desc;      /* completed */
    const struct check_case *c; /* NULL: a shape of the command line */
};

/* A line of the table: a rule and a type. */
struct verify_row {
    clattn_rule rule;
    clattn_dtype dtype;
    struct verify_problem *problems;
    size_t problem_count;
    struct modes modes;   /* those that the rule has, of the wanted */
    size_t cases, failed; /* of its outcomes so far */
    double worst;
    cJSON *object, *outcomes; /* object has the outcomes when the row is done */
    enum { ROW_WAITS, ROW_RUNS, ROW_DONE } state;
};

struct verify {
    const struct settings *settings;
    struct target target;
    struct verify_row *rows;
    size_t row_count;
    /* ---- Under the lock, which who ends the process never gives back ---- */
    mutex lock;
    size_t done, total, failed; /* outcomes */
    struct table table;
    struct text said;        /* what workers have said, by lines */
    struct process *workers; /* a place for each, id 0 where there is none */
    size_t worker_count;
    int ended;          /* all is printed */
    atomic_int stopped; /* stdout is closed: nothing is worth doing any more; read without the lock */
};

/* How one problem went in one mode. */
struct outcome {
    const char *name;
    clattn_mode mode;
    double error; /* infinite when it did not run */
    double bound;
    clattn_operand_id operand;
    const char *solver;  /* NULL: the reference, or none */
    const char *message; /* why it did not run, or not as it should have; NULL */
};

/* The rows that the settings ask for. EXIT_OK, or one line and a code. */
int verify_rows_make(struct verify *verify);
/* Each row's modes; a row without one is left out. EXIT_OK, or one line and a code. */
int verify_modes_choose(struct verify *verify);
void verify_rows_free(struct verify *verify);

/* The problem and the mode of the row's outcome of that number. */
const struct verify_problem *verify_problem_of(const struct verify_row *row, size_t outcome, clattn_mode *mode);
/* Its outcomes when it is done. */
size_t verify_row_size(const struct verify_row *row);

/* Runs a row here. */
void verify_row_run(struct verify *verify, struct verify_row *row);
/* Runs all rows in that many worker processes. */
void verify_rows_share(struct verify *verify, size_t jobs);
/* The end of all workers, if there are any, with the lock taken. */
void verify_workers_stop(struct verify *verify);

cJSON *verify_outcome(const struct outcome *outcome);
/* Takes what verify_outcome made, here or in a worker. Each of the rest takes the lock itself. */
void verify_record(struct verify *verify, struct verify_row *row, cJSON *outcome);
void verify_row_begin(struct verify *verify, struct verify_row *row);
void verify_row_done(struct verify *verify, struct verify_row *row);

/* Output: before all else; the head of the table; and what could not be printed before, of the rows that are done,
 * with the lock taken. */
void verify_table_begin(struct verify *verify);
void verify_print_begin(struct verify *verify);
int verify_print_end(struct verify *verify);
size_t verify_missing(const struct verify *verify);
#endif
