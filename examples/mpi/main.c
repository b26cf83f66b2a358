/* A long sequence on several devices: every rank computes a stretch of its tokens, and compares it with the reference.
 *
 *     mpirun -n 4 mpi */
#include <clattn_mpi.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 300, HEADS = 2, DIM = 16 };

static void print_error(void *user, clattn_log_level level, const char *message)
{
    if (level == CLATTN_LOG_ERROR && *(const int *)user == 0) /* all ranks log the same */
        fprintf(stderr, "%s\n", message);
}

/* Numbers that any rank can make for any token */
static float number(int operand, int64_t i)
{
    const double x = sin(0.7 * operand + 1.3 * (double)i);

    return (float)(operand == CLATTN_G ? -0.1 * x * x : operand == CLATTN_BETA ? x * x : 0.5 * x);
}

static float *numbers(int operand, int64_t first, int64_t count, int64_t width)
{
    float *x = malloc(((size_t)(count * width) + 1) * sizeof *x);

    for (int64_t i = 0; x != NULL && i < count * width; i++)
        x[i] = number(operand, first * width + i);
    return x;
}

enum { OPERANDS = 6, OUTPUT = 5 };
static const struct {
    clattn_operand_id id;
    int64_t width;
} table[OPERANDS] = {{CLATTN_Q, HEADS *DIM}, {CLATTN_K, HEADS *DIM}, {CLATTN_V, HEADS *DIM},
                     {CLATTN_G, HEADS},      {CLATTN_BETA, HEADS},   {CLATTN_O, HEADS *DIM}};

static void make(clattn_operand operands[OPERANDS], int64_t first, int64_t count)
{
    for (int i = 0; i < OPERANDS; i++)
        operands[i] =
            (clattn_operand){.id = table[i].id, .host = numbers((int)table[i].id, first, count, table[i].width)};
}

static void release(clattn_operand operands[OPERANDS])
{
    for (int i = 0; i < OPERANDS; i++)
        free(operands[i].host);
}

static const clattn_plan_desc desc = {.rule = CLATTN_GATED_DELTA_RULE,
                                      .flags = CLATTN_QK_L2NORM,
                                      .seq_len = TOKENS,
                                      .heads = HEADS,
                                      .key_dim = DIM,
                                      .value_dim = DIM};

/* The largest difference of the rank's outputs from the reference's for all tokens */
static double difference(const float *own, int64_t first, int64_t count)
{
    clattn_operand operands[OPERANDS];
    double worst = 0;

    make(operands, 0, TOKENS);
    if (clattn_reference(&desc,
                         &(clattn_call){.operands = operands, .operand_count = OPERANDS, .seq_len = CLATTN_WHOLE}, NULL,
                         NULL) != CLATTN_SUCCESS)
        worst = INFINITY;
    for (int64_t i = 0; i < count * HEADS * DIM; i++)
        worst = fmax(worst, fabs((double)own[i] - (double)((float *)operands[OUTPUT].host)[first * HEADS * DIM + i]));
    release(operands);
    return worst;
}

static clattn_status run(clattn_mpi_context *context, int rank)
{
    clattn_mpi_plan *plan = NULL;
    clattn_operand operands[OPERANDS];
    int64_t first, count;
    clattn_status status = clattn_mpi_plan_create(&plan, context, &desc, CLATTN_MPI_TOKENS);

    if (status != CLATTN_SUCCESS)
        return status;
    clattn_mpi_plan_local(plan, CLATTN_WHOLE, &first, &count);
    make(operands, first, count);
    status =
        clattn_mpi_run(plan, &(clattn_call){.operands = operands, .operand_count = OPERANDS, .seq_len = CLATTN_WHOLE});
    if (status == CLATTN_SUCCESS) {
        const double worst = difference(operands[OUTPUT].host, first, count);
        printf("rank %d: tokens %lld to %lld, at most %.1e from the reference\n", rank, (long long)first,
               (long long)(first + count), worst);
        status = worst < 1e-4 ? CLATTN_SUCCESS : CLATTN_DEVICE_ERROR;
    }
    release(operands);
    clattn_mpi_plan_destroy(plan);
    return status;
}

int main(int argc, char **argv)
{
    clattn_mpi_context *context = NULL;
    clattn_status status;
    int rank = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    status = clattn_mpi_context_create(&context, MPI_COMM_WORLD,
                                       &(clattn_context_desc){.log = print_error, .log_user = &rank});
    if (status == CLATTN_SUCCESS)
        status = run(context, rank);
    clattn_mpi_context_destroy(context);
    MPI_Finalize();
    return status != CLATTN_SUCCESS;
}
