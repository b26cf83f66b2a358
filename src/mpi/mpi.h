/* libclattn_mpi stands on clattn.h, and on the log and the printing of src/base: what its files share. */
#ifndef CLATTN_SRC_MPI_H
#define CLATTN_SRC_MPI_H

#include "clattn_mpi.h"

#include "base/log.h"

enum { MOST_OPERANDS = 64, MOST_TEXT = 512 };

/* What went wrong on this rank since the last agreement. */
struct trouble {
    clattn_status status;
    char text[MOST_TEXT];
};

struct clattn_mpi_context {
    MPI_Comm comm; /* the caller's, duplicated; errors are returned */
    int rank, ranks;
    clattn_context *local;
    clattn_log_fn log;
    void *log_user;
    struct trouble trouble;
};

/* How the rule is computed when tokens are cut. */
enum exchange {
    EXCHANGE_NOTHING,
    EXCHANGE_STATES, /* summaries, folded */
    EXCHANGE_INPUTS, /* the last inputs of short_conv */
    EXCHANGE_KEYS    /* keys and values of a list */
};

struct clattn_mpi_plan {
    clattn_mpi_context *context;
    clattn_mpi_split split;
    enum exchange exchange;
    clattn_plan_desc whole, local; /* completed; of all ranks, and of this rank's plan */
    clattn_plan_desc summary_desc; /* of the plan whose states are exchanged */
    clattn_plan *run, *summary;    /* NULL: not needed */
};

/* ---- Agreement ---------------------------------------------------------------------------------------------------- */

/* Notes a failure of this rank and returns its status. The first one since the last agreement counts. */
clattn_status note_failure(clattn_mpi_context *context, clattn_status status, const char *format, ...)
    PRINTF_LIKE(3, 4);
/* The same for a call of MPI's that returned this code. */
clattn_status note_mpi(clattn_mpi_context *context, int code, const char *call);
/* Collective: SUCCESS if no rank has failed, else the status of the lowest rank that has, whose message all ranks log. */
clattn_status agree(clattn_mpi_context *context);
/* The log function of a rank's own context, whose user is the clattn_mpi_context: keeps errors for the agreement. */
void rank_log(void *user, clattn_log_level level, const char *message);

/* ---- Parts -------------------------------------------------------------------------------------------------------- */

/* The part of rank `rank` of that many. */
void part_of(int rank, int ranks, int64_t total, int64_t unit, int64_t *first, int64_t *count);

/* Tokens that stay together in a call of that many. It depends on the length alone, so that all ranks agree. */
int64_t token_unit(const clattn_mpi_plan *plan, int64_t total);

/* A call of this rank's plan. */
struct part {
    int64_t total, first, count; /* tokens: of all ranks, before this rank's, this rank's */
    int64_t sequences;
    clattn_operand operands[MOST_OPERANDS]; /* the caller's, and those that were made */
    size_t operand_count;
    int64_t *starts;       /* packed sequences: where each begins in the whole; sequences + 1, owned; else NULL */
    int32_t *local_starts; /* the same within the rank's tokens, owned */
    int32_t *local_keys;   /* within the keys that it sees, owned */
    int32_t *positions;    /* of the sequences' first tokens on this rank, owned */
    clattn_call call;      /* with these operands */
};

/* The operand, or NULL. */
clattn_operand *part_operand(struct part *part, clattn_operand_id id);
/* Puts memory of the library's in an operand's place. */
void part_put(struct part *part, clattn_operand_id id, void *host, size_t size);
void part_drop(struct part *part, clattn_operand_id id);
/* Whether this rank is where the sequences begin, or end. */
int is_first(const clattn_mpi_plan *plan);
int is_last(const clattn_mpi_plan *plan);

/* The three ways to compute a part; failures are noted, and the agreement before each exchange is theirs. */
clattn_status run_states(clattn_mpi_plan *plan, struct part *part);
clattn_status run_keys(clattn_mpi_plan *plan, struct part *part);

#endif
