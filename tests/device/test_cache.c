/* The cache of compiled programs: every byte of an entry damaged, its limit, its folder, an application's own store. */
#include "harness.h"

#include "device/cache.h"
#include "base/file.h"
#include "base/system.h"

#include <stdio.h>
#include <string.h>

static const clattn_plan_desc desc = {
    .rule = CLATTN_DELTA_RULE, .seq_len = 20, .heads = 2, .key_dim = 8, .value_dim = 8, .mode = CLATTN_MODE_RECURRENT};

static int empty_folder(void **state)
{
    (void)state;
    cache_clear(test_folder());
    return 0;
}

/* ---- A store in memory ---- */

static struct blob {
    char key[HASH_DIGITS];
    unsigned char data[1 << 20];
    size_t size, loads, stores;
} blob;

static size_t load_blob(void *user, const char *key, void *data, size_t size)
{
    struct blob *from = user;

    from->loads++;
    if (from->size == 0 || strcmp(from->key, key) != 0)
        return 0;
    if (size >= from->size)
        memcpy(data, from->data, from->size);
    return from->size;
}

static void store_blob(void *user, const char *key, const void *data, size_t size)
{
    struct blob *to = user;

    to->stores++;
    if (size > sizeof to->data)
        return;
    snprintf(to->key, sizeof to->key, "%s", key);
    memcpy(to->data, data, size);
    to->size = size;
}

static struct cache blob_cache(void)
{
    struct cache cache;

    memset(&blob, 0, sizeof blob);
    assert_status(
        cache_init(&cache,
                   &(clattn_context_desc){.blob_load = load_blob, .blob_store = store_blob, .blob_user = &blob}),
        SUCCESS);
    return cache;
}

static const struct hash some_key = {0x0123456789abcdef, 42};

static void assert_missing(const struct cache *cache, const char *what, size_t at)
{
    size_t size;
    void *bytes = cache_load(cache, some_key, &size);

    if (bytes != NULL)
        fail_msg("an entry with byte %zu %s was taken", at, what);
}

static void test_damage(void **state)
{
    struct cache cache = blob_cache();
    unsigned char bytes[3000];
    size_t whole, size;
    void *loaded;

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 256);
    cache_store(&cache, some_key, "a label", bytes, sizeof bytes);
    whole = blob.size;
    for (size_t i = 0; i < whole; i++) {
        for (int bit = 0; bit < 8; bit++) {
            blob.data[i] ^= (unsigned char)(1 << bit);
            assert_missing(&cache, "changed", i);
            blob.data[i] ^= (unsigned char)(1 << bit);
        }
        blob.size = i;
        assert_missing(&cache, "and all after it gone", i);
        blob.size = whole;
    }
    blob.size = whole + 1;
    assert_missing(&cache, "added", whole);
    blob.size = whole;
    loaded = cache_load(&cache, some_key, &size);
    assert_non_null(loaded);
    assert_int_equal(size, sizeof bytes);
    assert_memory_equal(loaded, bytes, size);
    free(loaded);
}

static void test_other_key(void **state)
{
    struct cache cache = blob_cache();
    char name[HASH_DIGITS];
    size_t size;

    (void)state;
    cache_store(&cache, some_key, "", "abc", 3);
    snprintf(blob.key, sizeof blob.key, "%s", hash_name((struct hash){1, 2}, name));
    assert_null(cache_load(&cache, (struct hash){1, 2}, &size)); /* a file renamed */
}

/* ---- The folder ---- */

static void count_entry(void *user, const struct cache_entry *entry)
{
    struct cache_entry *all = user;

    all->bytes += entry->bytes;
    all->intact += entry->intact;
    all->used++;
}

static struct cache folder_cache(uint64_t limit)
{
    struct cache cache;

    assert_status(cache_init(&cache, &(clattn_context_desc){.cache_dir = test_folder(), .cache_limit = limit}),
                  SUCCESS);
    return cache;
}

static void age(struct hash key, int seconds)
{
    char name[HASH_DIGITS], command[512];

    snprintf(command, sizeof command, "touch -d '%d seconds ago' '%s/%s%s'", seconds, test_folder(),
             hash_name(key, name), CACHE_SUFFIX);
    assert_int_equal(system(command), 0);
}

static void test_limit(void **state)
{
    struct cache cache = folder_cache(10000);
    struct cache_entry all = {.bytes = 0};
    static char bytes[4500];
    size_t size;

    (void)state;
    for (uint64_t i = 0; i < 5; i++) {
        cache_store(&cache, (struct hash){i, i}, "", bytes, sizeof bytes / 3);
        age((struct hash){i, i}, 100 - (int)i);
    }
    free(cache_load(&cache, (struct hash){0, 0}, &size)); /* used: no longer the oldest */
    cache_store(&cache, (struct hash){9, 9}, "", bytes, sizeof bytes);
    assert_int_equal(cache_list(test_folder(), count_entry, &all), 0);
    assert_true(all.bytes <= 10000);
    for (uint64_t i = 0; i < 10; i++) {
        void *found = cache_load(&cache, (struct hash){i, i}, &size);
        int kept = i == 0 || i == 9 || (i < 5 && i >= 3);
        if ((found != NULL) != kept)
            fail_msg("entry %d is %s", (int)i, found != NULL ? "still there" : "gone");
        free(found);
    }
    cache_free(&cache);
}

static int removals;
static char stuck[512];

/* An entry of another user, or one that is in use: it stays where it is. */
static void remove_others(const char *path)
{
    if (++removals > 100)
        fail_msg("the same entries are removed again and again");
    if (strcmp(path, stuck) != 0)
        file_remove(path);
}

/* What cannot be removed is tried once a store, and takes nothing of the room that the other entries have. */
static void test_stuck(void **state)
{
    enum { ENTRIES = 5, BYTES = 1500, LIMIT = 5500 };
    struct cache cache = folder_cache(LIMIT);
    struct cache_entry all = {.bytes = 0};
    static char bytes[9000];
    char name[HASH_DIGITS];
    uint64_t stuck_bytes = 0;

    (void)state;
    cache.remove = remove_others;
    removals = 0;
    snprintf(stuck, sizeof stuck, "%s/%s%s", test_folder(), hash_name((struct hash){0, 0}, name), CACHE_SUFFIX);
    cache_store(&cache, (struct hash){0, 0}, "", bytes, sizeof bytes);
    age((struct hash){0, 0}, 1000);
    for (uint64_t i = 1; i <= ENTRIES; i++) {
        cache_store(&cache, (struct hash){i, i}, "", bytes, BYTES);
        age((struct hash){i, i}, 100 - (int)i);
    }
    assert_int_equal(file_kind(stuck, &stuck_bytes), FILE_REGULAR);
    assert_int_equal(cache_list(test_folder(), count_entry, &all), 0);
    assert_true(all.bytes - stuck_bytes <= LIMIT);
    for (uint64_t i = 1; i <= ENTRIES; i++) {
        size_t size;
        void *found = cache_load(&cache, (struct hash){i, i}, &size);
        if ((found != NULL) != (i > 2))
            fail_msg("entry %d is %s", (int)i, found != NULL ? "still there" : "gone");
        free(found);
    }
    cache_free(&cache);
}

static void test_no_folder(void **state)
{
    struct cache cache;
    size_t size;

    (void)state;
    assert_status(cache_init(&cache, &(clattn_context_desc){.cache_dir = ""}), SUCCESS);
    assert_false(cache_enabled(&cache));
    assert_status(cache_init(&cache, &(clattn_context_desc){.cache_dir = "/dev/null/nowhere"}), SUCCESS);
    cache_store(&cache, some_key, "", "abc", 3);
    assert_null(cache_load(&cache, some_key, &size));
    cache_free(&cache);
}

/* What a process that is stopped had begun goes, an entry and another's beginning stay. */
static void test_unfinished(void **state)
{
    static const char *const names[] = {"a.clattn.7.0.tmp", "b.clattn.7.12.tmp", "c.clattn.77.0.tmp", "d.clattn"};
    uint64_t bytes;

    (void)state;
    setenv("CLATTN_CACHE_DIR", test_folder(), 1);
    for (size_t i = 0; i < 4; i++) {
        char *path = file_join(test_folder(), names[i]);
        assert_int_equal(file_put(path, "x", 1, "", 0), 0);
        free(path);
    }
    cache_drop_unfinished(7);
    for (size_t i = 0; i < 4; i++) {
        char *path = file_join(test_folder(), names[i]);
        assert_int_equal(file_kind(path, &bytes), i < 2 ? FILE_MISSING : FILE_REGULAR);
        free(path);
    }
    setenv("CLATTN_CACHE_DIR", "", 1);
}

/* ---- Programs ---- */

static int builds;
static cl_program(CL_API_CALL *real_source)(cl_context, cl_uint, const char **, const size_t *, cl_int *);

static cl_program CL_API_CALL count_source(cl_context context, cl_uint n, const char **text, const size_t *length,
                                           cl_int *error)
{
    builds++;
    return real_source(context, n, text, length, error);
}

/* A context, a plan and a run; the number of programs that were built from source. */
static int run_with(const clattn_context_desc *context_desc)
{
    struct opencl *cl = test_opencl_table();
    struct check_device device = test_device;
    struct check_tensors tensors, expected;

    test_log_clear();
    builds = 0;
    real_source = cl->CreateProgramWithSource;
    cl->CreateProgramWithSource = count_source;
    assert_status(clattn_context_create(&device.context, context_desc), SUCCESS);
    test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
    assert_status(check_run(&tensors, &device, NULL, 0, test_log, NULL), SUCCESS);
    cl->CreateProgramWithSource = real_source;
    assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
    test_compare_all(&tensors, &expected, check_bound(desc.dtype), "with a cache");
    check_free(&expected);
    check_free(&tensors);
    clattn_context_destroy(device.context);
    return builds;
}

static clattn_context_desc in_folder(void)
{
    return (clattn_context_desc){
        .cl = test_device.cl, .device = test_device.device, .log = test_log, .cache_dir = test_folder()};
}

static void test_programs(void **state)
{
    clattn_context_desc context = in_folder();

    (void)state;
    assert_int_equal(run_with(&context), 1);
    assert_int_equal(run_with(&context), 0);
    context.cache_dir = "";
    assert_int_equal(run_with(&context), 1);
    context.blob_load = load_blob;
    context.blob_store = store_blob;
    context.blob_user = &blob;
    memset(&blob, 0, sizeof blob);
    assert_int_equal(run_with(&context), 1);
    assert_int_equal(run_with(&context), 0);
    assert_true(blob.stores > 0);
}

/* The path of the one entry. */
static void find_path(void *user, const struct cache_entry *entry)
{
    snprintf(user, 512, "%s/%s%s", test_folder(), entry->key, CACHE_SUFFIX);
}

/* Damaged here and there, a file is built again and written anew. */
static void test_damaged_programs(void **state)
{
    clattn_context_desc context = in_folder();
    char path[512] = "", *bytes;
    size_t size, step;

    (void)state;
    assert_int_equal(run_with(&context), 1);
    cache_list(test_folder(), find_path, path);
    bytes = file_read(path, 1 << 24, &size);
    assert_non_null(bytes);
    step = size / 12;
    for (size_t at = 0; at < size; at += at < 8 ? 4 : step) {
        bytes[at] ^= 0x10;
        assert_int_equal(file_write(path, bytes, size, NULL, 0), 0);
        bytes[at] ^= 0x10;
        assert_int_equal(run_with(&context), 1);
        assert_int_equal(run_with(&context), 0);
        assert_int_equal(file_write(path, bytes, at, NULL, 0), 0);
        assert_int_equal(run_with(&context), 1);
    }
    free(bytes);
}

/* An entry whose checksum is right and whose bytes no driver takes. */
static void test_foreign_program(void **state)
{
    clattn_context_desc context = in_folder();
    char path[512] = "", *bytes;
    struct hash key = {0, 0};
    struct cache cache = folder_cache(0);
    size_t size;

    (void)state;
    assert_int_equal(run_with(&context), 1);
    cache_list(test_folder(), find_path, path);
    bytes = file_read(path, 1 << 24, &size);
    assert_non_null(bytes);
    memcpy(&key, bytes + 8, sizeof key); /* behind the magic */
    cache_store(&cache, key, "", "no program", 10);
    assert_int_equal(run_with(&context), 1);
    assert_int_equal(run_with(&context), 0);
    free(bytes);
    cache_free(&cache);
}

/* ---- What a program and a verdict are kept for ------------------------------------------------------------------- */

/* What the device or its platform says of itself, one thing after the other with an x in its middle */
static const struct said {
    const char *name;
    int platform;
    cl_uint key;
} identity[] = {{"driver version", 0, CL_DRIVER_VERSION},
                {"device name", 0, CL_DEVICE_NAME},
                {"device version", 0, CL_DEVICE_VERSION},
                {"platform name", 1, CL_PLATFORM_NAME},
                {"platform version", 1, CL_PLATFORM_VERSION}};
static struct opencl real;
static const struct said *changed;
static int launches;

static void change(char *text)
{
    size_t middle = text != NULL ? strlen(text) / 2 : 0;

    if (middle > 0)
        text[middle] = text[middle] == 'x' ? 'y' : 'x';
}

static cl_int CL_API_CALL changed_device(cl_device_id id, cl_device_info key, size_t size, void *value, size_t *length)
{
    cl_int error = real.GetDeviceInfo(id, key, size, value, length);

    if (changed != NULL && !changed->platform && key == changed->key)
        change(value);
    return error;
}

static cl_int CL_API_CALL changed_platform(cl_platform_id id, cl_platform_info key, size_t size, void *value,
                                           size_t *length)
{
    cl_int error = real.GetPlatformInfo(id, key, size, value, length);

    if (changed != NULL && changed->platform && key == changed->key)
        change(value);
    return error;
}

static cl_int CL_API_CALL count_launch(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset,
                                       const size_t *global, const size_t *local, cl_uint n, const cl_event *wait,
                                       cl_event *event)
{
    launches++;
    return real.EnqueueNDRangeKernel(queue, kernel, dims, offset, global, local, n, wait, event);
}

static int put_identity(void **state)
{
    struct opencl *cl = test_opencl_table();

    changed = NULL;
    real = *cl;
    cl->GetDeviceInfo = changed_device;
    cl->GetPlatformInfo = changed_platform;
    cl->EnqueueNDRangeKernel = count_launch;
    return empty_folder(state);
}

static int take_identity(void **state)
{
    (void)state;
    *test_opencl_table() = real;
    setenv("CLATTN_SELF_TEST", "0", 1);
    return 0;
}

/* Launches of a plan's creation in a context of its own: those of the self-test. */
static int self_tests(const clattn_context_desc *context_desc)
{
    clattn_context *context;
    clattn_plan *plan;

    launches = 0;
    test_log_clear();
    assert_status(clattn_context_create(&context, context_desc), SUCCESS);
    assert_status(clattn_plan_create(&plan, context, &desc), SUCCESS);
    clattn_plan_destroy(plan);
    clattn_context_destroy(context);
    return launches;
}

static void test_program_keys(void **state)
{
    clattn_context_desc context = in_folder();

    (void)state;
    assert_int_equal(run_with(&context), 1);
    for (size_t i = 0; i < COUNT(identity); i++) {
        changed = &identity[i];
        if (run_with(&context) != 1 || run_with(&context) != 0)
            fail_msg("a program of another %s is taken", changed->name);
    }
    changed = NULL;
    assert_int_equal(run_with(&context), 0);
}

/* A verdict is asked for once, and again of another device or driver. */
static void test_verdict_keys(void **state)
{
    clattn_context_desc context = in_folder();

    (void)state;
    setenv("CLATTN_SELF_TEST", "1", 1);
    assert_true(self_tests(&context) > 0);
    assert_int_equal(self_tests(&context), 0);
    for (size_t i = 0; i < COUNT(identity); i++) {
        changed = &identity[i];
        if (self_tests(&context) == 0 || self_tests(&context) != 0)
            fail_msg("the verdict on another %s is taken", changed->name);
    }
    changed = NULL;
    assert_int_equal(self_tests(&context), 0);
    setenv("CLATTN_SELF_TEST", "0", 1);
    assert_int_equal(cache_clear(test_folder()) > 0, 1);
    assert_int_equal(self_tests(&context), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_other_key),
        cmocka_unit_test_setup(test_limit, empty_folder),
        cmocka_unit_test_setup(test_stuck, empty_folder),
        cmocka_unit_test_setup(test_unfinished, empty_folder),
        cmocka_unit_test(test_no_folder),
        cmocka_unit_test_setup(test_programs, empty_folder),
        cmocka_unit_test_setup(test_damaged_programs, empty_folder),
        cmocka_unit_test_setup(test_foreign_program, empty_folder),
        cmocka_unit_test_setup_teardown(test_program_keys, put_identity, take_identity),
        cmocka_unit_test_setup_teardown(test_verdict_keys, put_identity, take_identity),
    };

    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
