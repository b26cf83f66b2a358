/* What the test programs share: cmocka, the device under test, captured log lines, and access to tensors by element.
 *
 * CLATTN_TEST_DEVICE is a part of the name of the platform or device to test, or "reference" for the host's reference
 * in the device's place; PoCL when it is not set. */
#ifndef CLATTN_TESTS_HARNESS_H
#define CLATTN_TESTS_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "check/check.h"
#include "op/rule.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define OP(NAME) CLATTN_##NAME

/* The log lines since the last test_log_clear, newest last. */
extern char test_log_text[4096];
void test_log(void *user, clattn_log_level level, const char *message);
void test_log_clear(void);
/* How many of them are of that level. */
int test_log_count(clattn_log_level level);

/* Fails the test that went through a table and ran none of its rows: runs is how many it ran. */
void test_ran(int runs);
/* Only tests whose names match the pattern run; the program fails where none does. For the group that follows. */
void test_filter(const char *pattern);
/* In the place of cmocka's, which takes a group of no tests for one that passes. */
int test_run_group(const char *name, const struct CMUnitTest *tests, size_t count, CMFixtureFunction setup,
                   CMFixtureFunction teardown);
#undef cmocka_run_group_tests
#define cmocka_run_group_tests(tests, setup, teardown) test_run_group(#tests, tests, COUNT(tests), setup, teardown)
#undef cmocka_run_group_tests_name
#define cmocka_run_group_tests_name(name, tests, setup, teardown)                                                      \
    test_run_group(name, tests, COUNT(tests), setup, teardown)

/* Where a test may leave files: CLATTN_TEST_FOLDER, which ctest sets; the test fails without it. */
const char *test_folder(void);

#define assert_status(expr, status) test_assert_status((expr), CLATTN_##status, #expr, __FILE__, __LINE__)
void test_assert_status(clattn_status actual, clattn_status expected, const char *expr, const char *file, int line);
/* The log since the last clear names part, which is not "". */
#define assert_logged(part) test_assert_logged((part), __FILE__, __LINE__)
void test_assert_logged(const char *part, const char *file, int line);

/* The device under test; context NULL when it is the reference. */
extern struct check_device test_device;
/* Group setup and teardown of cmocka. */
int test_device_open(void **state);
int test_device_close(void **state);
int test_is_reference(void);

/* The same with an engine in the context, by name, which the program sets before the group: what has it is
 * test_engine_device. */
extern const char *test_engine;
extern struct check_device test_engine_device;
int test_engine_open(void **state);
int test_engine_close(void **state);

/* Runs desc of tensors into its outputs, on the device under test, in poisoned memory; fails the test when it fails. */
void test_run(struct check_tensors *tensors);
/* check_make that fails the test. */
void test_make(struct check_tensors *tensors, const clattn_plan_desc *desc, enum check_gates gates,
               const int64_t *cu_seqlens);
/* rel of two tensors within bound; bound 0: the same bits. what names the check in the failure. */
void test_compare(const struct check_tensor *actual, const struct check_tensor *expected, double bound,
                  const char *what);
/* All outputs. */
void test_compare_all(const struct check_tensors *actual, const struct check_tensors *expected, double bound,
                      const char *what);

/* A buffer of the device under test; data NULL: of no content. */
cl_mem test_buffer(size_t bytes, const void *data);
/* Buffers of all tensors, and a workspace of the plan's size and 4 bytes; all to be freed. */
struct arguments test_operands(const struct check_tensors *tensors, const clattn_plan *plan);
void test_operands_free(struct arguments *operands);

double test_get(const struct check_tensors *tensors, clattn_operand_id id, int64_t i);
/* The same, made a log-decay of the rule's gate and a strength of beta where the desc maps them, by the formulas of
 * models' code. */
double test_get_mapped(const struct check_tensors *tensors, clattn_operand_id id, int64_t i);
void test_set(struct check_tensors *tensors, clattn_operand_id id, int64_t i, double value);
void test_set_all(struct check_tensors *tensors, clattn_operand_id id, double value);
/* Copies one tensor of the same shape. */
void test_copy(struct check_tensors *to, clattn_operand_id to_id, const struct check_tensors *from,
               clattn_operand_id from_id);
/* to[i] = from[i / repeat]: one value for many channels. */
void test_spread(struct check_tensors *to, clattn_operand_id to_id, const struct check_tensors *from,
                 clattn_operand_id from_id, int64_t repeat);
/* Copies the tokens from_first … from_first + count - 1 of every batch to those from to_first on. */
void test_copy_tokens(struct check_tensors *to, int64_t to_first, const struct check_tensors *from, int64_t from_first,
                      int64_t count, clattn_operand_id id);

/* Allocates *part, a problem of its own: `count` tokens from `first` on of batch element `batch`, with the states of
 * sequence `sequence`. Inputs and outputs are both copied. */
struct test_slice {
    int64_t batch, sequence, first, count;
};
void test_take(struct check_tensors *part, const struct check_tensors *whole, struct test_slice slice);

/* Whether a problem has tokens along the operand's second axis, and reads it. */
int test_has_tokens(const struct operand_row *operand);
/* Puts a value in the place of one token's row of head 0; of an operand with a row a write, the token's last. */
void test_spoil(struct check_tensors *tensors, clattn_operand_id id, int64_t token, double value);
/* The run was a success; but a NaN in f16 may have the bits of memory that nobody wrote. */
void test_assert_spoiled(clattn_status status, clattn_dtype dtype);
/* What a spoiled token may reach: outputs of one batch element, of heads from 0 on, of tokens first … end - 1. All
 * others are finite in clean and have the same bits in both; of those within, some differ. */
struct test_reach {
    int64_t heads, first, end;
};
void test_compare_beyond(const struct check_tensors *spoiled, const struct check_tensors *clean,
                         struct test_reach reach, const char *what);

const char *test_rule_name(clattn_rule rule);
/* Whether the rule has a backward pass: that of a rule with a state, or of a piece. */
int test_has_gradients(clattn_rule rule);
int test_is_piece(clattn_rule rule);
/* Which of decay, erase, write and read are the same in both, a bit each: where a few rows of a table must do, those go that
 * have all of them in common with rows before. */
enum { TEST_ALL_WORDS = 15 };
int test_words_in_common(const char *rule, const char *other);

struct tuned;
/* One parameter of a solver's point; the test fails when the solver has none of that name. */
void test_tuned_set(struct tuned *tuned, const char *name, int value);

/* A way to compute a problem: the recurrence, chunks, or chunks on an emulated matrix engine, with `segments` in as
 * many. */
struct test_kind {
    const char *name;
    clattn_mode mode;
    clattn_dtype dtype;
    const char *engine; /* "none" for none */
    int segments;       /* 0: by rule of thumb; else for 16 tokens a chunk and 16 value columns a group */
};
/* Whether there are kernels of the kind for the rule. */
int test_kind_applies(const struct test_kind *kind, clattn_rule rule);
/* The device under test with the kind's engine in a context of its own, to be destroyed. */
struct check_device test_kind_device(const struct test_kind *kind);
/* The plan; the test fails when it is not of the kind. */
clattn_plan *test_kind_plan(const struct test_kind *kind, const struct check_device *device,
                            const clattn_plan_desc *desc);

/* The library's own table of OpenCL functions, to put others in their place: it is not const where it is defined. */
struct opencl *test_opencl_table(void);

/* A desc's fields: a small problem that an engine takes. */
#define TEST_ENGINE_PROBLEM                                                                                            \
    .rule = CLATTN_LINEAR_ATTN, .dtype = CLATTN_BF16, .seq_len = 40, .heads = 1, .key_dim = 16, .value_dim = 16,       \
    .mode = CLATTN_MODE_CHUNK

#endif
