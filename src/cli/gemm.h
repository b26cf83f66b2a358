/* One matrix product timed. */
#ifndef CLATTN_SRC_CLI_GEMM_H
#define CLATTN_SRC_CLI_GEMM_H

#include "cli/device/target.h"
#include "plan/gemm.h"
#include "tuner/timing.h"

/* Buffers of random numbers for a product. */
struct timed_product {
    struct gemm gemm;
    cl_mem buffers[GEMM_OPERANDS];
};

/* The desc of a shape of the settings. EXIT_OK or EXIT_BAD. */
int product_desc(const struct settings *settings, const struct shape *shape, clattn_dtype dtype,
                 clattn_gemm_desc *desc);
/* Those without a shape have one of 1024. */
size_t product_count(const struct settings *settings);
const struct shape *product_shape(const struct settings *settings, size_t index);

clattn_status product_open(struct timed_product *product, const struct target *target, const clattn_gemm_desc *desc);
void product_close(struct timed_product *product);
/* Times the plan on them. */
clattn_status product_time(const struct timed_product *product, const struct target *target, clattn_gemm_plan *plan,
                           size_t runs, double budget, struct timing *timing);
/* Whether what the plan computes is right: all of it where the host can check that soon, else a small product. */
clattn_status product_check(const struct timed_product *product, clattn_gemm_plan *plan, int *right);
double product_flops(const clattn_gemm_desc *desc);
double product_bytes(const struct timed_product *product);

#endif
