/* A problem's tensors on a device: one buffer per operand, with one or more sets of it, one after the other. */
#ifndef CLATTN_SRC_TUNER_BUFFERS_H
#define CLATTN_SRC_TUNER_BUFFERS_H

#include "check/check.h"

struct buffers {
    const struct check_device *device;
    struct log log;
    clattn_rule rule;
    cl_mem buffer[OPERAND_COUNT], workspace;
    size_t stride[OPERAND_COUNT]; /* bytes from one set to the next */
    size_t sets;
    int in_place; /* final states overwrite the initial ones */
};

/* Checks by the device's own limits that its memory can hold desc's operands and that much workspace, before host
 * memory is filled, which takes longer. OUT_OF_MEMORY with a log line. */
clattn_status buffers_fit(const clattn_device_info *info, const clattn_plan_desc *desc, size_t workspace,
                          const struct log *log);
/* Creates buffers for the tensors (a plan's maxima) and the workspace. buffers_destroy in all cases. */
clattn_status buffers_create(struct buffers *buffers, const struct check_device *device,
                             const struct check_tensors *tensors, size_t sets, int in_place, size_t workspace,
                             clattn_log_fn log, void *log_user);
void buffers_destroy(struct buffers *buffers);

/* Writes all tensors into one set. After check_make the outputs are NaN: elements that a kernel does not write are read
 * back so. Outputs in place of an input have the input's numbers. */
clattn_status buffers_write(const struct buffers *buffers, size_t set, const struct check_tensors *tensors);
/* Reads one set's outputs into tensors, and updated inputs into their `after`. */
clattn_status buffers_read(const struct buffers *buffers, size_t set, struct check_tensors *tensors);
/* One set as operands of clattn_enqueue, with desc's lengths. */
struct arguments buffers_operands(const struct buffers *buffers, size_t set, const clattn_plan_desc *desc);

#endif
