/* clattn_mpi: clattn's plans on several devices and machines, one process (rank) a device, over MPI.
 *
 *     MPI_Init(&argc, &argv);
 *     clattn_mpi_context_create(&context, MPI_COMM_WORLD, NULL);
 *     clattn_mpi_plan_create(&plan, context, &desc, CLATTN_MPI_TOKENS);      desc: of the whole problem
 *     clattn_mpi_plan_local(plan, CLATTN_WHOLE, &first, &count);            this rank's tokens
 *     clattn_mpi_run(plan, &call);                                          operands: this rank's tokens, on the host
 *     clattn_mpi_enqueue(plan, queue, &call, 0, NULL, NULL);                or in buffers
 *
 * Tokens are cut into a stretch for each rank, in the order of ranks. What a stretch does to a rule's state is affine,
 * S <- M S + N (CLATTN_SUMMARY in clattn.h): ranks compute M and N of their stretches at once, exchange them, fold those
 * of the ranks before theirs, all in the same order and in f32, and run the ordinary plan from the state that they come
 * to. Lists (softmax_attn, alibi_attn, forgetting_attn) exchange keys and values, and queries, so that all ranks compute
 * equally many pairs. short_conv exchanges its last inputs; the other pieces exchange nothing. Heads and batch elements
 * are independent of each other: cutting these exchanges nothing at all.
 *
 * Functions marked *collective* must be called by all ranks of the communicator, with the same arguments but for
 * operands, in the same order. Their errors are collective, too: if one rank fails, all return its status, and each logs
 * its message with the rank's number; none waits for a rank that has failed. No function aborts the job. The threads
 * rule of clattn.h holds; collective calls of one context must not overlap. MPI must be initialised. */
#ifndef CLATTN_MPI_H
#define CLATTN_MPI_H

#include <clattn.h>
#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is cut. */
typedef enum clattn_mpi_split {
    CLATTN_MPI_TOKENS = 1, /* a stretch of tokens for each rank; packed sequences are cut anywhere */
    CLATTN_MPI_HEADS = 2,  /* heads, with the queries, keys and states that belong to them */
    CLATTN_MPI_BATCH = 3   /* batch elements, which are not packed */
} clattn_mpi_split;

/* This rank's part of `total` things of which `unit` stay together (tokens: 1, or a multiple of a chunk; 0: 1): those
 * from *first on. Ranks beyond the things have none. INVALID_ARGUMENT. */
CLATTN_API clattn_status clattn_mpi_local(MPI_Comm comm, int64_t total, int64_t unit, int64_t *first, int64_t *count);

typedef struct clattn_mpi_context clattn_mpi_context;

/* Collective. A context on this rank's device. desc (may be NULL) is as for clattn_context_create; without a device in
 * it, ranks of a machine take that machine's devices in turn: its GPUs, if it has any. The communicator is duplicated.
 * Log lines begin with "rank N: ". INVALID_ARGUMENT, and those of clattn_context_create. */
CLATTN_API clattn_status clattn_mpi_context_create(clattn_mpi_context **context, MPI_Comm comm,
                                                   const clattn_context_desc *desc);
/* Collective. After its plans, before MPI_Finalize. NULL is accepted. */
CLATTN_API void clattn_mpi_context_destroy(clattn_mpi_context *context);
/* The context of this rank, which it still owns. NULL for NULL. */
CLATTN_API clattn_context *clattn_mpi_context_get(const clattn_mpi_context *context);

/* Collective. Gives all ranks the measured parameters of rank `root`, a text in the format of `clattn tune --export`,
 * which other ranks may leave NULL: what one rank measured, all use. INVALID_ARGUMENT. */
CLATTN_API clattn_status clattn_mpi_tuning_broadcast(clattn_mpi_context *context, const char *json, int root);

typedef struct clattn_mpi_plan clattn_mpi_plan;

/* Collective. A plan for the whole problem: batch, seq_len, heads and so on are those of all ranks together. Besides
 * what clattn_plan_create refuses, these are UNSUPPORTED:
 * tokens   path_attn, deltaformer, mesa_net, the rules with levels and the learners; a cache (kv_len), attn,
 *          state_indices and states on the way; states other than f32; the backward pass of mlstm and lists; in lists
 *          noncausal with a window, noncausal alibi_attn, keys_before, and rope, of which the piece is cut
 * heads    retention, lightning_attn and alibi_attn, whose decays follow from a head's number among all; tiled heads
 * batch    packed sequences, state_indices
 */
CLATTN_API clattn_status clattn_mpi_plan_create(clattn_mpi_plan **plan, clattn_mpi_context *context,
                                                const clattn_plan_desc *desc, clattn_mpi_split split);
/* Not collective. NULL is accepted. */
CLATTN_API void clattn_mpi_plan_destroy(clattn_mpi_plan *plan);

/* This rank's part of a call: the first and the number of its tokens, heads or batch elements. `length` is the call's
 * seq_len (CLATTN_WHOLE: the plan's) for tokens, its batch (0: the plan's) for batch elements, and ignored for heads.
 * INVALID_ARGUMENT. */
CLATTN_API clattn_status clattn_mpi_plan_local(const clattn_mpi_plan *plan, int64_t length, int64_t *first,
                                               int64_t *count);

/* Collective. Computes a call from host memory, as clattn_run does. Lengths of the call are those of the whole problem
 * and the same on all ranks. Operands are in .host and hold this rank's part along the dimension that is cut; a rank
 * without a part passes operands without memory, or none.
 *
 * tokens   cu_seqlens is whole on every rank. initial_state and its kin are read on the rank that the sequences begin
 *          on (the first; the last if reversed), final_state and its kin are written on the rank that they end on. Other
 *          ranks may lack them. q, k, v, g, o and lse of lists must be contiguous. Backward: the gradients by final
 *          states are read on the rank that the sequences end on, and those by initial states written on the one that
 *          they begin on.
 * heads, batch   Everything is a rank's own.
 * Backward: of an input that ranks share (weights, gates of a head), a rank has the gradient by its own part, or, without
 * a part, may leave it as it was; the whole's is the sum over ranks, as of a model's other weights.
 *
 * INVALID_ARGUMENT, INVALID_OPERAND, OUT_OF_MEMORY, DEVICE_ERROR (also if MPI fails). */
CLATTN_API clattn_status clattn_mpi_run(clattn_mpi_plan *plan, const clattn_call *call);

/* Bytes of workspace that clattn_mpi_enqueue needs at the plan's maxima: this rank's plans, and states or keys of other
 * ranks. INVALID_ARGUMENT. */
CLATTN_API clattn_status clattn_mpi_plan_workspace_size(const clattn_mpi_plan *plan, size_t *bytes);

/* Collective. The same with operands in .buffer, of the rank's own OpenCL context (clattn_mpi_context_get), and a
 * workspace: as clattn_enqueue on a queue of that context, in order or out of order. The work waits for n_wait events;
 * *event, which the caller releases, completes after all of it on this rank. cu_seqlens and position may be in .host.
 *
 * What blocks: every call until all ranks have come to it and have enqueued their work, since errors are collective. Cut
 * by tokens, states and keys travel through the host: the call returns after the n_wait events, the summary of the
 * rank's tokens and the exchange, and what is then left, the rule itself, is only enqueued. Events on which n_wait waits
 * must not depend on what this thread does later. With cu_seqlens or position in .buffer they are read first. Heads,
 * batch elements and pieces cut by tokens (but short_conv) wait for no device. On the host it allocates memory for the
 * states or keys of all ranks, in a ring for the keys of two.
 *
 * The statuses of clattn_mpi_run, and INVALID_WORKSPACE. On failure *event is NULL, and on ranks that had not failed work
 * may still run, and write outputs and workspace. */
CLATTN_API clattn_status clattn_mpi_enqueue(clattn_mpi_plan *plan, cl_command_queue queue, const clattn_call *call,
                                            uint32_t n_wait, const cl_event *wait, cl_event *event);

#ifdef __cplusplus
}
#endif

#endif
