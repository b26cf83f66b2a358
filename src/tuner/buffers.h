/* A problem's tensors on a device: a buffer an operand, holding one or more sets of it, one behind the other. */
#ifndef CLATTN_SRC_TUNER_BUFFERS_H
#define CLATTN_SRC_TUNER_BUFFERS_H

#include "check/check.h"

struct buffers {
    const struct check_device *device;
    struct log log;
    cl_mem buffer[OPERAND_COUNT], workspace;
    size_t stride[OPERAND_COUNT]; /* bytes from one set to the next */
    size_t sets;
    int in_place; /* final states lie where the initial ones do */
};

/* Whether the device's memory can hold desc's operands and so many bytes of workspace, as it says itself: before host
 * memory is filled for them, which takes longer. OUT_OF_MEMORY, and the log says of what and how much. */
clattn_status buffers_fit(const clattn_device_info *info, const clattn_plan_desc *desc, size_t workspace,
                          const struct log *log);
/* Room for the tensors (a plan's maxima) and workspace bytes. buffers_destroy in all cases. */
clattn_status buffers_create(struct buffers *buffers, const struct check_device *device,
                             const struct check_tensors *tensors, size_t sets, int in_place, size_t workspace,
                             clattn_log_fn log, void *log_user);
void buffers_destroy(struct buffers *buffers);

/* All of tensors into one set, inputs and outputs as they are: after check_make outputs are NaN. A kernel may leave
 * some of an output as it is, which is read back. Outputs that lie in place of an input have that input's numbers. */
clattn_status buffers_write(const struct buffers *buffers, size_t set, const struct check_tensors *tensors);
/* One set's outputs into tensors, and what was updated into their `after`. */
clattn_status buffers_read(const struct buffers *buffers, size_t set, struct check_tensors *tensors);
/* One set as clattn_enqueue takes it, for tensors of desc's lengths. */
struct arguments buffers_operands(const struct buffers *buffers, size_t set, const clattn_plan_desc *desc);

#endif
