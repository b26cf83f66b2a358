/* libclattn_mpi stands on clattn.h, on the log and the printing of src/base, and on the table of OpenCL's functions: what
 * its files share. */
#ifndef CLATTN_SRC_MPI_H
#define CLATTN_SRC_MPI_H

#include "clattn_mpi.h"

#include "base/log.h"
#include "device/opencl.h"
#include "mpi/join.h"

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
    EXCHANGE_KEYS,   /* keys and values of a list, to all */
    EXCHANGE_RING    /* the same, from rank to rank */
};

enum { POOL_BLOCKS = 32 };
struct pool_block {
    void *memory;
    size_t bytes;
    int taken;
};

struct clattn_mpi_plan {
    clattn_mpi_context *context;
    clattn_mpi_split split;
    enum exchange exchange;
    int trades;                    /* lists: which rank computes a query is another than which has it, see halves.h */
    clattn_plan_desc whole, local; /* completed; of all ranks, and of this rank's plan */
    clattn_plan_desc summary_desc; /* of the plan whose states are exchanged */
    clattn_plan *run, *summary;    /* NULL: not needed */
    /* Of a ring */
    clattn_plan *before; /* of queries after all the keys */
    struct join join;
    cl_command_queue transfers;
    struct pool_block pool[POOL_BLOCKS];
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

/* ---- Memory (pool.c) ---------------------------------------------------------------------------------------------- */

/* As malloc and free, for memory that the plan's next call needs again. */
void *pool_take(clattn_mpi_plan *plan, size_t bytes);
void pool_give(clattn_mpi_plan *plan, void *memory);
void pool_free(clattn_mpi_plan *plan); /* at the end of the plan */

/* ---- Parts -------------------------------------------------------------------------------------------------------- */

/* The part of rank `rank` of that many. */
void part_of(int rank, int ranks, int64_t total, int64_t unit, int64_t *first, int64_t *count);

/* Tokens that stay together in a call of that many. It depends on the length alone, so that all ranks agree. */
int64_t token_unit(const clattn_mpi_plan *plan, int64_t total);

/* A call on buffers. */
struct device_call {
    const struct opencl *cl;
    cl_command_queue queue;
    cl_uint n_wait;
    const cl_event *wait;
    cl_mem workspace;
    size_t room;   /* offset in the workspace of what is free behind the plans' own */
    cl_event done; /* of the plan that ran last, owned; NULL: none ran */
};

/* A call of this rank's plan. */
struct part {
    struct device_call *device;  /* NULL: operands are on the host */
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
void part_drop(struct part *part, clattn_operand_id id);
int has_memory(const struct part *part, const clattn_operand *operand);
/* Puts memory of the library's in an operand's place: with a queue, a room of the workspace, into which the bytes are
 * copied. Of an output they are not, and host may be NULL with a queue. */
clattn_status part_put(clattn_mpi_plan *plan, struct part *part, clattn_operand_id id, void *host, size_t size);
clattn_status part_put_output(clattn_mpi_plan *plan, struct part *part, clattn_operand_id id, void *host, size_t size);
/* Copies an operand's first bytes, when what was enqueued of the part is done. */
clattn_status part_read(clattn_mpi_plan *plan, struct part *part, const clattn_operand *operand, size_t bytes,
                        void *to);
/* The way back, into a buffer. */
clattn_status part_write(clattn_mpi_plan *plan, struct part *part, const clattn_operand *operand, size_t bytes,
                         const void *from);
/* The same bytes where they lie on the host, or in a copy, which *owned has, for pool_give. NULL: failed. */
const void *part_view(clattn_mpi_plan *plan, struct part *part, const clattn_operand *operand, size_t bytes,
                      void **owned);
/* Makes it a part of these tokens: where sequences begin in them, and their positions. */
clattn_status part_place(clattn_mpi_plan *plan, struct part *part, int64_t first, int64_t count);
void part_displace(struct part *part);
/* Runs a plan on the part's operands, or enqueues it behind what was enqueued before. */
clattn_status part_compute(clattn_plan *plan, struct part *part);

/* Bytes of the workspace that a tensor takes. */
size_t room_of(size_t bytes);
/* A list's tensor of that many tokens, of which a call may read fewer. */
void list_strides(clattn_operand *operand, const clattn_operand_info *info, int64_t tokens);
/* Elements of a token, or of another row of the first two dimensions. */
int64_t row_of(const clattn_operand_info *info);
/* A tensor of a list must be there and contiguous. */
clattn_status check_contiguous(const clattn_mpi_plan *plan, const struct part *part, const clattn_operand *operand,
                               const clattn_operand_info *info);
/* Bytes of an operand at the desc's lengths; 0: it has none. */
size_t operand_bytes(const clattn_plan_desc *desc, clattn_operand_id id);
/* Bytes that the rank's plans need, of which one runs at a time. */
size_t plans_workspace(const clattn_mpi_plan *plan);
/* Checks and takes the call's workspace; and at the end, with the status of all ranks, hands the event out or drops it. */
clattn_status device_begin(clattn_mpi_plan *plan, struct device_call *device, const clattn_call *call);
clattn_status device_end(clattn_mpi_plan *plan, struct device_call *device, clattn_status status, cl_event *event);

/* Whether this rank is where the sequences begin, or end. */
int is_first(const clattn_mpi_plan *plan);
int is_last(const clattn_mpi_plan *plan);

/* The ways to compute a part; failures are noted, and the agreement before each exchange is theirs. */
clattn_status run_states(clattn_mpi_plan *plan, struct part *part);
clattn_status run_keys(clattn_mpi_plan *plan, struct part *part);
clattn_status run_ring(clattn_mpi_plan *plan, struct part *part);

/* What a ring's plan has beside others. ring_destroy in all cases. */
clattn_status ring_create(clattn_mpi_plan *plan);
void ring_destroy(clattn_mpi_plan *plan);
size_t ring_rooms(const clattn_mpi_plan *plan);

#endif
