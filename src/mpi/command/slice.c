#include "mpi/command/slice.h"

#include <stdlib.h>
#include <string.h>

int slice_dimension(const struct operand_row *row, clattn_mpi_split split)
{
    static const char *const letters[] = {
        [CLATTN_MPI_TOKENS] = "TSX", [CLATTN_MPI_HEADS] = "HQGLY", [CLATTN_MPI_BATCH] = "BN"};
    const char *letter = strpbrk(row->dims, letters[split]);

    return letter != NULL ? (int)(letter - row->dims) : -1;
}

/* The tensor is [outer][of this dimension][inner]. */
void slice_copy(const struct check_tensor *tensor, int dimension, int64_t first, int64_t count, char *part, int back)
{
    size_t outer = 1, inner = (size_t)tensor->info.element_size;

    for (int i = 0; i < tensor->info.rank; i++)
        *(i < dimension ? &outer : &inner) *= i == dimension ? 1 : (size_t)tensor->info.dims[i];
    for (size_t o = 0; o < outer; o++) {
        char *whole = (char *)tensor->data + (o * (size_t)tensor->info.dims[dimension] + (size_t)first) * inner;
        char *own = part + o * (size_t)count * inner;
        memcpy(back ? whole : own, back ? own : whole, (size_t)count * inner);
    }
}

int64_t slice_scaled(const struct slice *slice, int64_t things, int64_t size)
{
    return slice->total > 0 ? things * size / slice->total : 0;
}

static clattn_status take_tensor(struct check_tensor *part, const struct check_tensor *whole, int dimension,
                                 const struct slice *slice)
{
    *part = *whole;
    part->data = malloc(whole->bytes + 1);
    if (part->data == NULL)
        return CLATTN_OUT_OF_MEMORY;
    if (dimension < 0) {
        memcpy(part->data, whole->data, whole->bytes);
        return CLATTN_SUCCESS;
    }
    part->info.dims[dimension] = slice_scaled(slice, slice->count, whole->info.dims[dimension]);
    part->bytes = whole->bytes / (size_t)whole->info.dims[dimension] * (size_t)part->info.dims[dimension];
    slice_copy(whole, dimension, slice_scaled(slice, slice->first, whole->info.dims[dimension]),
               part->info.dims[dimension], part->data, 0);
    return CLATTN_SUCCESS;
}

clattn_status slice_take(struct check_tensors *part, const struct check_tensors *whole, const struct slice *slice)
{
    struct problem problem;

    memset(part, 0, sizeof *part);
    part->desc = whole->desc;
    TRY(problem_init(&problem, &whole->desc, NULL));
    for (int i = 0; i < problem.operand_count; i++) {
        const struct operand_row *row = &problem.operands[i];
        if (whole->tensor[row->id].data != NULL)
            TRY(take_tensor(&part->tensor[row->id], &whole->tensor[row->id], slice_dimension(row, slice->split),
                            slice));
    }
    return CLATTN_SUCCESS;
}
