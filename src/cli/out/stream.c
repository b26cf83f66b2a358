#include "cli/out/stream.h"

#include "base/system.h"
#include "base/text.h"
#include "cli/process/interrupt.h"
#include "cli/out/progress.h"
#include "cli/out/wrap.h"
#include "device/cache.h"

#include <stdio.h>

/* The lock is taken. */
static int print_end(struct stream *stream)
{
    cJSON *rows = stream->rows;

    progress_clear();
    stream->ended = 1;
    stream->rows = NULL;
    if (stream->format == FORMAT_JSON)
        return json_print(rows);
    cJSON_Delete(rows);
    return EXIT_OK;
}

/* Called at SIGINT, SIGTERM and SIGHUP, on a thread of its own. */
static void on_interrupt(void *user, int signal)
{
    struct stream *stream = user;

    lock_take(&stream->lock);
    if (stream->ended) {
        lock_give(&stream->lock);
        return;
    }
    print_end(stream);
    fflush(stdout);
    if (stream->count == 0)
        failed("interrupted before the first row");
    else
        failed("interrupted, %zu of %zu rows are missing", stream->count - stream->done, stream->count);
    cache_drop_unfinished(process_id());
    interrupt_exit(signal);
}

void stream_begin(struct stream *stream, enum format format)
{
    stream->format = format;
    stream->rows = cJSON_CreateArray();
    lock_init(&stream->lock);
    interrupt_watch(on_interrupt, stream);
}

void stream_expect(struct stream *stream, size_t count)
{
    lock_take(&stream->lock);
    stream->count = count;
    lock_give(&stream->lock);
}

static void widen(struct stream *stream, const cJSON *rows)
{
    cJSON *numbers = cJSON_CreateObject();
    const cJSON *row;

    for (size_t i = 0; i < stream->table.count; i++) {
        const struct column *column = &stream->table.columns[i];
        if (column->kind == COLUMN_FIXED)
            cJSON_AddNumberToObject(numbers, column->key, column->digits > 1 ? 9999 : 999999);
        if (column->kind == COLUMN_SCIENTIFIC)
            cJSON_AddNumberToObject(numbers, column->key, 1e-9);
    }
    table_widen(&stream->table, numbers);
    cJSON_Delete(numbers);
    cJSON_ArrayForEach(row, rows) table_widen(&stream->table, row);
}

static void print_device(const struct target *target, const struct peak *peak)
{
    char line[512];

    text_fit(line, sizeof line, "%s", target_name(target));
    if (peak->flops > 0)
        text_fit(line, sizeof line, "%s, peaks measured: %.0f GFLOP/s f32, %.1f GB/s", target_name(target),
                 1e-9 * peak->flops, 1e-9 * peak->bytes);
    wrap_line(stdout, "device: ", line);
}

void stream_head(struct stream *stream, const struct column *columns, size_t count, cJSON *rows,
                 const struct target *target, const struct peak *peak)
{
    table_begin(&stream->table, columns, count, stream->format);
    widen(stream, rows);
    cJSON_Delete(rows);
    progress_clear();
    if (stream->format == FORMAT_TEXT)
        print_device(target, peak);
    if (stream->format != FORMAT_JSON)
        table_head(&stream->table);
    stream->stopped = fflush(stdout) != 0;
}

void stream_row(struct stream *stream, cJSON *row, int ok)
{
    cJSON_AddBoolToObject(row, "ok", ok);
    lock_take(&stream->lock);
    cJSON_AddItemToArray(stream->rows, row);
    stream->done++;
    stream->failed += !ok;
    if (stream->format != FORMAT_JSON) {
        table_row(&stream->table, row);
        stream->stopped = fflush(stdout) != 0;
    }
    lock_give(&stream->lock);
}

int stream_end(struct stream *stream)
{
    int status;

    lock_take(&stream->lock);
    status = print_end(stream);
    lock_give(&stream->lock);
    return status == EXIT_OK && (stream->failed > 0 || stream->stopped) ? EXIT_FAILED : status;
}

void stream_close(struct stream *stream)
{
    lock_take(&stream->lock);
    stream->ended = 1;
    lock_give(&stream->lock);
    cJSON_Delete(stream->rows);
    stream->rows = NULL;
}
