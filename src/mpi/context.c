/* A rank's device. */
#include "mpi/mpi.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 64 };

void part_of(int rank, int ranks, int64_t total, int64_t unit, int64_t *first, int64_t *count)
{
    const int64_t units = (total + unit - 1) / unit, begin = units * rank / ranks, end = units * (rank + 1) / ranks;

    *first = begin * unit < total ? begin * unit : total;
    *count = (end * unit < total ? end * unit : total) - *first;
}

clattn_status clattn_mpi_local(MPI_Comm comm, int64_t total, int64_t unit, int64_t *first, int64_t *count)
{
    int rank, ranks;

    if (first == NULL || count == NULL || total < 0 || unit < 0 || MPI_Comm_rank(comm, &rank) != MPI_SUCCESS ||
        MPI_Comm_size(comm, &ranks) != MPI_SUCCESS)
        return CLATTN_INVALID_ARGUMENT;
    part_of(rank, ranks, total, unit > 0 ? unit : 1, first, count);
    return CLATTN_SUCCESS;
}

/* This rank's number among the ranks of its machine. */
static int rank_on_machine(clattn_mpi_context *context)
{
    MPI_Comm machine = MPI_COMM_NULL;
    int rank = 0;

    if (note_mpi(context,
                 MPI_Comm_split_type(context->comm, MPI_COMM_TYPE_SHARED, context->rank, MPI_INFO_NULL, &machine),
                 "MPI_Comm_split_type") != CLATTN_SUCCESS)
        return 0;
    MPI_Comm_rank(machine, &rank);
    MPI_Comm_free(&machine);
    return rank;
}

/* The machine's usable devices come best first: its GPUs, or if it has none its best device. NULL: none. */
static cl_device_id device_for(int rank)
{
    clattn_device_info infos[MOST_DEVICES];
    size_t count = 0, usable = 0;

    if (clattn_devices(infos, MOST_DEVICES, &count) != CLATTN_SUCCESS)
        return NULL;
    for (size_t i = 0; i < count && i < MOST_DEVICES; i++)
        if (infos[i].unusable == NULL && (usable == 0 || (infos[i].gpu && infos[0].gpu)))
            infos[usable++] = infos[i];
    return usable > 0 ? infos[(size_t)rank % usable].device : NULL;
}

static void open_device(clattn_mpi_context *context, const clattn_context_desc *desc)
{
    clattn_context_desc own = desc != NULL ? *desc : (clattn_context_desc){.cl = NULL};
    const int rank = rank_on_machine(context);

    own.log = rank_log;
    own.log_user = context;
    if (own.cl == NULL && own.device == NULL)
        own.device = device_for(rank);
    note_failure(context, clattn_context_create(&context->local, &own), "no context on this rank's device");
}

clattn_status clattn_mpi_context_create(clattn_mpi_context **context, MPI_Comm comm, const clattn_context_desc *desc)
{
    clattn_mpi_context *created;
    clattn_status status;

    if (context == NULL)
        return CLATTN_INVALID_ARGUMENT;
    *context = NULL;
    created = calloc(1, sizeof *created);
    if (created == NULL)
        return CLATTN_OUT_OF_MEMORY;
    if (MPI_Comm_dup(comm, &created->comm) != MPI_SUCCESS) {
        free(created);
        return CLATTN_INVALID_ARGUMENT;
    }
    MPI_Comm_set_errhandler(created->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(created->comm, &created->rank);
    MPI_Comm_size(created->comm, &created->ranks);
    created->log = desc != NULL ? desc->log : NULL;
    created->log_user = desc != NULL ? desc->log_user : NULL;
    open_device(created, desc);
    status = agree(created);
    if (status == CLATTN_SUCCESS)
        *context = created;
    else
        clattn_mpi_context_destroy(created);
    return status;
}

void clattn_mpi_context_destroy(clattn_mpi_context *context)
{
    if (context == NULL)
        return;
    clattn_context_destroy(context->local);
    MPI_Comm_free(&context->comm);
    free(context);
}

clattn_context *clattn_mpi_context_get(const clattn_mpi_context *context)
{
    return context != NULL ? context->local : NULL;
}

/* Room for the text of rank `root` on every rank; *size is its bytes. */
static char *text_from(clattn_mpi_context *context, const char *json, int root, int *size)
{
    char *text;

    *size = json != NULL && context->rank == root ? (int)strlen(json) + 1 : 0;
    if (note_mpi(context, MPI_Bcast(size, 1, MPI_INT, root, context->comm), "MPI_Bcast") != CLATTN_SUCCESS)
        return NULL;
    text = calloc((size_t)*size + 1, 1);
    if (text == NULL)
        note_failure(context, CLATTN_OUT_OF_MEMORY, "no memory for %d bytes of tuning", *size);
    else if (json != NULL && context->rank == root)
        memcpy(text, json, (size_t)*size);
    return text;
}

clattn_status clattn_mpi_tuning_broadcast(clattn_mpi_context *context, const char *json, int root)
{
    char *text;
    int size = 0;
    clattn_status status;

    if (context == NULL || root < 0 || root >= context->ranks)
        return CLATTN_INVALID_ARGUMENT;
    text = text_from(context, json, root, &size);
    status = agree(context);
    if (status == CLATTN_SUCCESS) {
        if (size == 0)
            note_failure(context, CLATTN_INVALID_ARGUMENT, "rank %d has no tuning", root);
        else if (note_mpi(context, MPI_Bcast(text, size, MPI_CHAR, root, context->comm), "MPI_Bcast") == CLATTN_SUCCESS)
            note_failure(context, clattn_context_set_tuning(context->local, text), "the tuning of rank %d is invalid",
                         root);
        status = agree(context);
    }
    free(text);
    return status;
}
