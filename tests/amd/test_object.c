/* What a code object says of its kernels, and code objects that are damaged. */
#include "harness.h"

#include "compile.h"
#include "object.h"

#include <string.h>

static const char source[] =
    "kernel void first(global float *to, long4 shape, int count, local float *shared)\n"
    "{\n"
    "    shared[get_local_id(0)] = to[get_global_id(0)];\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    to[get_global_id(0)] = shared[get_local_id(0) ^ 1] + (float)shape.y + (float)count;\n"
    "}\n"
    "__attribute__((reqd_work_group_size(64, 1, 1))) kernel void second(global const char *from, global char *to)\n"
    "{\n"
    "    local char all[640];\n"
    "    all[get_local_id(0) * 10] = from[0];\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    to[get_local_id(0)] = all[630 - get_local_id(0) * 10];\n"
    "}\n";

static void build(struct compiled *compiled)
{
    if (!compile_source(source, "", "gfx1100", compiled))
        fail_msg("%s", compiled->log != NULL ? compiled->log : "no message");
}

static void assert_argument(const struct kernel_code *kernel, int index, struct argument expected)
{
    const struct argument *argument = &kernel->arguments[index];

    assert_int_equal(argument->kind, expected.kind);
    assert_int_equal(argument->offset, expected.offset);
    assert_int_equal(argument->size, expected.size);
}

static void test_kernels(void **state)
{
    struct compiled compiled;
    struct object *object;
    char error[256] = "";

    (void)state;
    build(&compiled);
    assert_non_null(strstr(compiled.disassembly, "<first>:"));
    object = object_load(compiled.object, compiled.bytes, error, sizeof error);
    assert_string_equal(error, "");
    assert_int_equal(object->kernel_count, 2);
    assert_string_equal(object->kernels[0].name, "first");
    assert_string_equal(object->kernels[1].name, "second");
    assert_argument(&object->kernels[0], 0, (struct argument){.kind = ARGUMENT_BUFFER, .offset = 0, .size = 8});
    assert_argument(&object->kernels[0], 1, (struct argument){.kind = ARGUMENT_VALUE, .offset = 32, .size = 32});
    assert_argument(&object->kernels[0], 2, (struct argument){.kind = ARGUMENT_VALUE, .offset = 64, .size = 4});
    assert_argument(&object->kernels[0], 3, (struct argument){.kind = ARGUMENT_LOCAL, .offset = 68, .size = 4});
    assert_int_equal(object->kernels[0].arguments[4].kind, ARGUMENT_HIDDEN);
    assert_string_equal(object->kernels[0].arguments[4].value_kind, "hidden_block_count_x");
    assert_int_equal(object->kernels[0].most_group, 256);
    assert_int_equal(object->kernels[0].required[0], 0);
    assert_int_equal(object->kernels[0].wave, 32);
    assert_int_equal(object->kernels[0].group_bytes, 0);
    assert_int_equal(object->kernels[1].required[0], 64);
    assert_int_equal(object->kernels[1].group_bytes, 640);
    object_free(object);
    compiled_free(&compiled);
}

/* Every length of the file, and every byte of it in turn with another value: nothing is read beyond the end, which
 * sanitizers see. What is loaded all the same has what a launch relies on. */
static void test_damaged(void **state)
{
    struct compiled compiled;
    char error[256];

    (void)state;
    build(&compiled);
    for (size_t i = 0; i < compiled.bytes; i++) {
        char *copy = malloc(i + 1);
        assert_non_null(copy);
        memcpy(copy, compiled.object, i);
        object_free(object_load(copy, i, error, sizeof error));
        free(copy);
        compiled.object[i] = (char)~compiled.object[i];
        object_free(object_load(compiled.object, compiled.bytes, error, sizeof error));
        compiled.object[i] = (char)~compiled.object[i];
    }
    compiled_free(&compiled);
}

static void test_refused(void **state)
{
    struct compiled compiled;

    (void)state;
    assert_false(compile_source("kernel void broken(void) { undeclared = 1; }", "", "gfx1100", &compiled));
    assert_non_null(strstr(compiled.log, "undeclared"));
    compiled_free(&compiled);
    assert_false(compile_source("kernel void right(void) {}", "-no-such-option", "gfx1100", &compiled));
    assert_non_null(strstr(compiled.log, "-no-such-option"));
    compiled_free(&compiled);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
