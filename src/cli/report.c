#include "cli/report.h"

#include "base/text.h"
#include "cli/tune.h"
#include "base/file.h"

#include <errno.h>
#include <string.h>
#include <time.h>

static const char style[] =
    ":root{--ink:#1c2430;--dim:#667085;--line:#d9dee7;--card:#fff;--page:#f5f6f8;--tuned:#0b7a75;--default:#b4541a;"
    "--bar:#9db4c8;--two:#5b5bd6}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e9ef;--dim:#98a2b3;--line:#333b49;--card:#1b212c;--page:#12161d;"
    "--tuned:#4cc2b8;--default:#f0a06a;--bar:#4a6178;--two:#a5a5ff}}\n"
    "*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);"
    "font:15px/1.5 system-ui,sans-serif}main{max-width:1200px;margin:0 auto;padding:32px 20px 64px}\n"
    "h1{font-size:26px;margin:0 0 4px}h2{font-size:17px;margin:0}p{margin:4px 0}.dim{color:var(--dim)}\n"
    "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}"
    "th{font-weight:600;text-align:left;color:var(--dim);font-size:13px}"
    "th,td{padding:6px 10px;border-bottom:1px solid "
    "var(--line);white-space:nowrap;vertical-align:top}td.n,th.n{text-align:right}"
    "tr:last-child td{border-bottom:0}td.p{white-space:normal;font-size:13px;color:var(--dim);min-width:300px}\n"
    "section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:18px 20px;margin-top:20px;"
    "overflow-x:auto}.charts{display:grid;grid-template-columns:1fr 1fr;gap:16px;margin-top:12px}"
    "@media(max-width:760px){.charts{grid-template-columns:1fr}}\n"
    "figure{margin:0}figcaption{font-size:13px;color:var(--dim)}svg{width:100%;display:block}"
    "svg text{font-size:11px;fill:var(--dim)}.axis{fill:none;stroke:var(--dim)}.grid{stroke:var(--line)}"
    ".bar{fill:var(--bar)}.point{fill:var(--bar)}.mark{stroke-width:1.5}.mark.default{stroke:var(--default);"
    "stroke-dasharray:4 3}.mark.tuned{stroke:var(--tuned)}svg text.default{fill:var(--default)}"
    "svg text.tuned{fill:var(--tuned)}.line{fill:none;stroke-width:2}.line.tuned,.line.series0{stroke:var(--tuned)}"
    ".line.series1{stroke:var(--two)}.line.series2{stroke:var(--default)}svg "
    "text.series0{fill:var(--tuned);font-size:12px}"
    "svg text.series1{fill:var(--two);font-size:12px}svg text.series2{fill:var(--default);font-size:12px}\n"
    ".share{display:grid;grid-template-columns:210px 1fr "
    "64px;gap:12px;align-items:center;margin-top:8px;font-size:13px}"
    ".share svg{height:8px;border-radius:4px}.share b{text-align:right;font-weight:600}.track{fill:var(--line)}"
    ".fill{fill:var(--tuned)}.big{font-size:20px;font-weight:600;color:var(--tuned)}";

static void write_head(FILE *file, const struct target *target, const struct peak *peak)
{
    cJSON *device = cJSON_CreateObject();
    char date[32];
    time_t now = time(NULL);

    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    cJSON_AddStringToObject(device, "name", target->info.name);
    cJSON_AddStringToObject(device, "platform", target->info.platform);
    cJSON_AddStringToObject(device, "driver", target->info.driver);
    fprintf(file,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>clattn tune</title>\n"
            "<meta name=\"viewport\" content=\"width=device-width\"><style>\n%s\n</style></head>\n<body><main>\n"
            "<h1>",
            style);
    report_text(file, device, "name");
    fputs("</h1><p class=\"dim\">", file);
    report_text(file, device, "platform");
    fputs(" &#183; driver ", file);
    report_text(file, device, "driver");
    text_print(file,
               " &#183; clattn %s &#183; %s</p>\n<p class=\"dim\">Peaks measured: %.0f GFLOP/s of f32 multiply-adds, "
               "%.1f GB/s of copies.</p>\n",
               clattn_version(), date, 1e-9 * peak->flops, 1e-9 * peak->bytes);
    cJSON_Delete(device);
}

/* "scalar+key" f32 K=128 V=128, 16 heads: solver */
static void write_name(FILE *file, const cJSON *row)
{
    report_text(file, row, "group");
    fputs(" &#183; ", file);
    report_text(file, row, "dtype");
    text_print(file, " &#183; K %.0f V %.0f &#183; %.0f heads", report_number(row, "key_dim"),
               report_number(row, "value_dim"), report_number(row, "heads"));
}

static void write_table(FILE *file, const cJSON *rows)
{
    const cJSON *row;

    fputs(
        "<section><table><tr><th>rules and sizes</th><th>solver</th><th class=\"n\">tokens</th><th class=\"n\">default"
        "</th><th class=\"n\">tuned</th><th class=\"n\">faster</th><th>parameters</th></tr>\n",
        file);
    cJSON_ArrayForEach(row, rows)
    {
        fputs("<tr><td>", file);
        write_name(file, row);
        fputs("</td><td>", file);
        report_text(file, row, "solver");
        text_print(file,
                   "</td><td class=\"n\">%.0f</td><td class=\"n\">%.3f ms</td><td class=\"n\">%.3f ms</td>"
                   "<td class=\"n\"><b>%.2f&#215;</b></td><td class=\"p\">",
                   report_number(row, "tokens"), report_number(row, "default_ms"), report_number(row, "time_ms"),
                   report_number(row, "speedup"));
        report_text(file, row, "parameters");
        fputs("</td></tr>\n", file);
    }
    fputs("</table></section>\n", file);
}

static void write_section(FILE *file, const cJSON *row, int first_of_problem)
{
    fputs("<section><h2>", file);
    write_name(file, row);
    fputs(": ", file);
    report_text(file, row, "solver");
    text_print(file,
               "</h2><p><span class=\"big\">%.2f&#215;</span> %.3f ms by default, %.3f ms tuned, for %.0f tokens</p>"
               "<p class=\"dim\">%.0f %s tried in %.0f s",
               report_number(row, "speedup"), report_number(row, "default_ms"), report_number(row, "time_ms"),
               report_number(row, "tokens"), report_number(row, "tried"),
               report_number(row, "tried") == 1 ? "point" : "points", report_number(row, "seconds"));
    if (report_number(row, "error") > 0)
        text_print(file, ", error %.1e", report_number(row, "error"));
    fputs(*cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, "note")) != '\0' ? " &#183; " : "", file);
    report_text(file, row, "note");
    fputs("</p>\n", file);
    chart_share(file, "of the multiply-add peak", report_number(row, "compute_percent"));
    chart_share(file, "of the copy bandwidth", report_number(row, "memory_percent"));
    fputs("<div class=\"charts\">\n", file);
    if (cJSON_GetObjectItemCaseSensitive(row, "candidates") != NULL) {
        chart_distribution(file, row);
        chart_progress(file, row);
    }
    if (first_of_problem)
        chart_lengths(file, row);
    fputs("</div></section>\n", file);
}

static int write_page(FILE *file, const cJSON *rows, const struct target *target, const struct peak *peak)
{
    const cJSON *row;

    write_head(file, target, peak);
    write_table(file, rows);
    cJSON_ArrayForEach(row, rows) write_section(file, row, row == rows->child || !report_same(row->prev, row));
    fputs("</main></body></html>\n", file);
    return fflush(file) != 0 || ferror(file) ? -1 : 0;
}

int report_write(const char *path, const cJSON *rows, const struct target *target, const struct peak *peak)
{
    struct file_output output;
    int error = 0;

    if (file_output_plan(&output, path) != 0 || file_output_open(&output) != 0 ||
        write_page(output.file, rows, target, peak) != 0)
        error = errno;
    if (file_output_close(&output, error) != 0)
        return failed("%s: cannot write: %s", path, strerror(errno));
    return EXIT_OK;
}
