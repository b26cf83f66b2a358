/* Operands in memory: their dims, and where a caller's lie, checked. */
#include "op/problem.h"

#include "base/sized.h"

#include <string.h>

static size_t element_size(const struct problem *problem, const struct operand_row *row)
{
    if (row->storage == STORE_LENGTH)
        return 4;
    if (row->storage == STORE_INDEX)
        return problem->desc.flags & CLATTN_CU_SEQLENS_INT64 ? 8 : 4;
    return dtype_size(problem->types[row->id]);
}

void problem_operand_info(const struct problem *problem, const struct extent *extent, const struct operand_row *row,
                          clattn_operand_info *info)
{
    const clattn_plan_desc *desc = &problem->desc;

    memset(info, 0, sizeof *info);
    info->name = operand_name(row->id);
    info->output = row->numbers == NUMBERS_WRITTEN;
    info->dtype = problem->types[row->id];
    info->element_size = (int32_t)element_size(problem, row);
    for (const char *letter = row->dims; *letter != '\0'; letter++)
        info->dims[info->rank++] = problem_dim(desc, extent, *letter);
}

clattn_status clattn_operand_describe_sized(const clattn_plan_desc *desc, size_t desc_size, clattn_operand_id id,
                                            clattn_operand_info *info, size_t info_size)
{
    clattn_operand_info ours;
    struct problem problem;
    struct extent extent;

    id = operand_from_public(id);
    if (info == NULL || id == CLATTN_OPERAND_NONE)
        return CLATTN_INVALID_ARGUMENT;
    TRY(problem_read(&problem, desc, desc_size, NULL));
    extent = problem_most(&problem);
    ours = (clattn_operand_info){.name = operand_name(id), .output = operand_is_output(id)};
    for (int i = 0; i < problem.operand_count; i++)
        if (problem.operands[i].id == id)
            problem_operand_info(&problem, &extent, &problem.operands[i], &ours);
    sized_write(info, info_size, &ours, sizeof ours);
    return CLATTN_SUCCESS;
}

/* One outer axis of an operand: how many, and how far apart. */
struct axis {
    const char *name, *letters;
    int64_t count, stride;
};

/* The contiguous strides, from the last dim to the first; *inner counts the innermost contiguous elements. */
static void contiguous(const clattn_plan_desc *desc, const struct extent *extent, const char *dims, struct axis axes[3],
                       int64_t *inner)
{
    int64_t stride = 1;

    *inner = 1;
    for (size_t i = strlen(dims); i-- > 0;) {
        int64_t count = problem_dim(desc, extent, dims[i]);
        int axis = 0;
        while (axis < 3 && strchr(axes[axis].letters, dims[i]) == NULL)
            axis++;
        if (axis < 3) {
            axes[axis].count = count;
            axes[axis].stride = stride;
        } else
            *inner *= count;
        if (i > 0)
            stride *= count;
    }
}

/* Keeps every sum of offsets within 63 bits, in bytes. */
static clattn_status check_stride(const char *operand, const struct axis *axis, int may_turn, const struct log *log)
{
    int64_t limit = axis->count > 1 ? INT64_MAX / 64 / (axis->count - 1) : INT64_MAX, least = may_turn ? -limit : 0;

    if (axis->stride < least || axis->stride > limit)
        return FAIL(log, INVALID_OPERAND, "%s: its %s stride is %lld, expected %lld to %lld elements", operand,
                    axis->name, (long long)axis->stride, (long long)least, (long long)limit);
    return CLATTN_SUCCESS;
}

static void sort_by_stride(struct axis axes[3])
{
    for (int i = 1; i < 3; i++)
        for (int j = i; j > 0 && axes[j].stride < axes[j - 1].stride; j--) {
            struct axis swap = axes[j];
            axes[j] = axes[j - 1];
            axes[j - 1] = swap;
        }
}

/* Whether an output's elements are apart: each axis steps over all that those of smaller strides reach. */
static clattn_status check_apart(const char *operand, const struct axis given[3], int64_t inner, const struct log *log)
{
    struct axis axes[3] = {given[0], given[1], given[2]};
    int64_t reach = inner;

    for (int i = 0; i < 3; i++)
        axes[i].stride = axes[i].stride < 0 ? -axes[i].stride : axes[i].stride;
    sort_by_stride(axes);
    for (int i = 0; i < 3; i++) {
        if (axes[i].count <= 1)
            continue;
        if (axes[i].stride < reach)
            return FAIL(log, INVALID_OPERAND, "%s overlaps itself: its %s stride is %lld, expected %lld or more",
                        operand, axes[i].name, (long long)axes[i].stride, (long long)reach);
        reach += (axes[i].count - 1) * axes[i].stride;
    }
    return CLATTN_SUCCESS;
}

int problem_is_empty(const struct problem *problem, const struct extent *extent, const struct operand_row *row)
{
    for (const char *letter = row->dims; *letter != '\0'; letter++)
        if (problem_dim(&problem->desc, extent, *letter) == 0)
            return 1;
    return 0;
}

clattn_status problem_place(const struct problem *problem, const struct extent *extent, const struct operand_row *row,
                            const clattn_operand *operand, size_t size, struct placement *place, const struct log *log)
{
    struct axis axes[3] = {{"batch", "BNMP", 1, 0}, {"token", "TSXEWRA", 1, 0}, {"head", "HQYGL", 1, 0}};
    const char *name = operand_name(row->id);
    size_t element = element_size(problem, row);
    int64_t inner, last, low = 0;

    contiguous(&problem->desc, extent, row->dims, axes, &inner);
    if (operand->batch_stride != 0 || operand->token_stride != 0 || operand->head_stride != 0) {
        if (operand_is_index(row->id))
            return FAIL(log, INVALID_OPERAND, "%s takes no strides", name);
        const int64_t strides[3] = {operand->batch_stride, operand->token_stride, operand->head_stride};
        for (int i = 0; i < 3; i++)
            if (axes[i].stride != 0) /* an axis that the operand has */
                axes[i].stride = strides[i];
    }
    if (operand->offset % element != 0)
        return FAIL(log, INVALID_OPERAND, "%s: offset %zu is no multiple of its element size %zu", name,
                    operand->offset, element);
    last = inner;
    for (int i = 0; i < 3; i++) {
        int64_t reach;
        TRY(check_stride(name, &axes[i], i == 1 && operand_is_snapshots(row), log));
        reach = (axes[i].count - 1) * axes[i].stride;
        *(reach < 0 ? &low : &last) += reach;
    }
    if (problem_is_empty(problem, extent, row))
        last = low = 0;
    else if (row->numbers == NUMBERS_WRITTEN || operand_is_updated(&problem->desc, row->id))
        TRY(check_apart(name, axes, inner, log));
    if (size != 0 && (uint64_t)last > size / element)
        return FAIL(log, INVALID_OPERAND, "%s needs %lld elements of %zu bytes, its memory holds %zu", name,
                    (long long)last, element, size / element);
    if ((uint64_t)-low > operand->offset / element)
        return FAIL(log, INVALID_OPERAND, "%s: offset %zu is less than the %lld bytes that lie before it", name,
                    operand->offset, (long long)-low * (long long)element);
    *place = (struct placement){
        .view = {(int64_t)(operand->offset / element), axes[0].stride, axes[1].stride, axes[2].stride},
        .count = {axes[0].count, axes[1].count, axes[2].count},
        .inner = inner,
        .low = -low,
        .span = last - low,
        .element = element,
        .output = row->numbers == NUMBERS_WRITTEN,
        .updated = operand_is_updated(&problem->desc, row->id)};
    return CLATTN_SUCCESS;
}

struct view placement_view(const struct problem *problem, const struct operand_row *row, const struct placement *place)
{
    struct view view = place->view;

    if ((problem->desc.flags & CLATTN_REVERSED) && (row->dims[1] == 'T' || row->dims[1] == 'S')) {
        view.offset += (place->count[1] - 1) * view.token;
        view.token = -view.token;
    }
    return view;
}

clattn_status problem_view(const struct problem *problem, const struct extent *extent, const struct operand_row *row,
                           const clattn_operand *operand, size_t size, struct view *view, const struct log *log)
{
    struct placement place;

    TRY(problem_place(problem, extent, row, operand, size, &place, log));
    *view = placement_view(problem, row, &place);
    return CLATTN_SUCCESS;
}
