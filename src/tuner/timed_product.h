/* A matrix product with its operands on a device, to be checked and timed with any plan. */
#ifndef CLATTN_SRC_TUNER_TIMED_PRODUCT_H
#define CLATTN_SRC_TUNER_TIMED_PRODUCT_H

#include "check/check.h"
#include "plan/gemm.h"
#include "tuner/timing.h"

struct timed_product {
    const struct check_device *device;
    struct gemm gemm;
    cl_mem buffers[GEMM_OPERANDS]; /* random numbers */
};

/* timed_product_close in all cases. */
clattn_status timed_product_open(struct timed_product *product, const struct check_device *device,
                                 const clattn_gemm_desc *desc, const struct log *log);
void timed_product_close(struct timed_product *product);

/* Whether the plan computes the product: *right is 1 if so. Where the host would take too long to compare all of it, a
 * small product is checked in its place. */
clattn_status timed_product_check(const struct timed_product *product, clattn_gemm_plan *plan, int *right);
/* Up to that many runs, within budget seconds. */
clattn_status timed_product_time(const struct timed_product *product, clattn_gemm_plan *plan, size_t runs,
                                 double budget, struct timing *timing);

/* Multiplies and adds, and the bytes of all operands. */
double timed_product_flops(const clattn_gemm_desc *desc);
double timed_product_bytes(const struct timed_product *product);

#endif
