/* Errors are collective: before each exchange, ranks agree on whether one has failed. */
#include "mpi/mpi.h"

#include "base/decimal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void rank_log(void *user, clattn_log_level level, const char *message)
{
    clattn_mpi_context *context = user;
    char line[MOST_TEXT + 32];

    if (level == CLATTN_LOG_ERROR) {
        if (context->trouble.text[0] == '\0')
            snprintf(context->trouble.text, sizeof context->trouble.text, "%s", message);
        return;
    }
    snprintf(line, sizeof line, "rank %d: %s", context->rank, message);
    if (context->log != NULL)
        context->log(context->log_user, level, line);
}

clattn_status note_failure(clattn_mpi_context *context, clattn_status status, const char *format, ...)
{
    va_list arguments;

    if (status == CLATTN_SUCCESS || context->trouble.status != CLATTN_SUCCESS)
        return status;
    context->trouble.status = status;
    va_start(arguments, format);
    if (context->trouble.text[0] == '\0')
        decimal_vprint(context->trouble.text, sizeof context->trouble.text, format, arguments);
    va_end(arguments);
    return status;
}

clattn_status note_mpi(clattn_mpi_context *context, int code, const char *call)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;

    if (code == MPI_SUCCESS)
        return CLATTN_SUCCESS;
    MPI_Error_string(code, text, &length);
    return note_failure(context, CLATTN_DEVICE_ERROR, "%s: %s", call, text);
}

/* The lowest rank that has failed, or the number of ranks. Where MPI itself fails, this rank's own failure is all that
 * is known. */
static int first_to_fail(const clattn_mpi_context *context)
{
    int own = context->trouble.status != CLATTN_SUCCESS ? context->rank : context->ranks, lowest = own;

    return MPI_Allreduce(&own, &lowest, 1, MPI_INT, MPI_MIN, context->comm) == MPI_SUCCESS ? lowest : context->rank;
}

clattn_status agree(clattn_mpi_context *context)
{
    struct trouble trouble = context->trouble;
    const int rank = first_to_fail(context);
    char line[MOST_TEXT + 32];

    memset(&context->trouble, 0, sizeof context->trouble);
    if (rank == context->ranks)
        return CLATTN_SUCCESS;
    if (MPI_Bcast(&trouble, (int)sizeof trouble, MPI_BYTE, rank, context->comm) != MPI_SUCCESS &&
        trouble.status == CLATTN_SUCCESS)
        trouble = (struct trouble){CLATTN_DEVICE_ERROR, "MPI failed"};
    snprintf(line, sizeof line, "rank %d: %s", rank, trouble.text);
    if (context->log != NULL)
        context->log(context->log_user, CLATTN_LOG_ERROR, line);
    return trouble.status;
}
