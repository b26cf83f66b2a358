#include "base/text.h"
#include "cli/report.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 440, HEIGHT = 200, LEFT = 52, RIGHT = 12, TOP = 14, BOTTOM = 36, BINS = 28 };

/* What a chart shows: x and y from low to high. */
struct plot {
    FILE *file;
    double x_low, x_high, y_low, y_high;
    int log_x, log_y;
};

static double place(double value, double low, double high, int log_scale)
{
    if (log_scale) {
        value = log2(value);
        low = log2(low);
        high = log2(high);
    }
    return high > low ? (value - low) / (high - low) : 0.5;
}

static double at_x(const struct plot *plot, double x)
{
    return LEFT + place(x, plot->x_low, plot->x_high, plot->log_x) * (WIDTH - LEFT - RIGHT);
}

static double at_y(const struct plot *plot, double y)
{
    return HEIGHT - BOTTOM - place(y, plot->y_low, plot->y_high, plot->log_y) * (HEIGHT - TOP - BOTTOM);
}

static void open_plot(const struct plot *plot, const char *title, const char *x_name)
{
    fprintf(plot->file,
            "<figure><figcaption>%s</figcaption><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n", title,
            WIDTH, HEIGHT, title);
    fprintf(plot->file, "<path class=\"axis\" d=\"M%d %d V%d H%d\"/>\n", LEFT, TOP, HEIGHT - BOTTOM, WIDTH - RIGHT);
    fprintf(plot->file, "<text class=\"name\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
            LEFT + (WIDTH - LEFT - RIGHT) / 2, HEIGHT - 4, x_name);
}

static void close_plot(const struct plot *plot)
{
    fputs("</svg></figure>\n", plot->file);
}

static void x_tick(const struct plot *plot, double x)
{
    text_print(plot->file, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.4g</text>\n", at_x(plot, x),
               HEIGHT - BOTTOM + 14, x);
}

static void y_tick(const struct plot *plot, double y)
{
    text_print(plot->file, "<path class=\"grid\" d=\"M%d %.1f H%d\"/>", LEFT, at_y(plot, y), WIDTH - RIGHT);
    text_print(plot->file, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.3g</text>\n", LEFT - 6, at_y(plot, y) + 4,
               y);
}

/* 1, 2 or 5 times a power of ten, so that at most five fit the range. */
static double step_of(double range)
{
    double step = pow(10, floor(log10(range > 0 ? range / 5 : 1)));

    while (range / step > 5)
        step *= range / step > 10 ? 5 : 2;
    return step;
}

static void ticks(const struct plot *plot, double low, double high, void (*tick)(const struct plot *, double))
{
    double step = step_of(high - low);

    for (double at = ceil(low / step) * step; at <= high * 1.0001; at += step)
        tick(plot, at);
}

/* ---- Values -------------------------------------------------------------------------------------------------------
 */

double report_number(const cJSON *row, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(row, key);

    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

void report_text(FILE *file, const cJSON *row, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, key));

    for (; text != NULL && *text != '\0'; text++)
        if (strchr("<>&\"", *text) != NULL)
            fprintf(file, "&#%d;", *text);
        else
            fputc(*text, file);
}

static const cJSON *candidates(const cJSON *row)
{
    return cJSON_GetObjectItemCaseSensitive(row, "candidates");
}

/* A point's time where it has one, else 0. */
static double time_of(const cJSON *candidate)
{
    const char *state = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(candidate, "state"));

    return state != NULL && strcmp(state, "timed") == 0 ? report_number(candidate, "time_ms") : 0;
}

static void time_range(const cJSON *row, double *low, double *high)
{
    const cJSON *candidate;

    *low = report_number(row, "time_ms");
    *high = report_number(row, "default_ms");
    cJSON_ArrayForEach(candidate, candidates(row))
    {
        double time = time_of(candidate);
        *low = time > 0 && time < *low ? time : *low;
        *high = time > *high ? time : *high;
    }
}

/* ---- Charts -------------------------------------------------------------------------------------------------------
 */

static void mark(const struct plot *plot, double x, const char *class, const char *label, int line)
{
    double at = at_x(plot, x);
    int after = at < LEFT + (WIDTH - LEFT - RIGHT) / 2;

    text_print(plot->file, "<path class=\"mark %s\" d=\"M%.1f %d V%d\"/>", class, at, TOP, HEIGHT - BOTTOM);
    text_print(plot->file, "<text class=\"%s\" x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">%s</text>\n", class,
               at + (after ? 4 : -4), TOP + 8 + 13 * line, after ? "start" : "end", label);
}

void chart_distribution(FILE *file, const cJSON *row)
{
    struct plot plot = {.file = file};
    const cJSON *candidate;
    int counts[BINS] = {0}, most = 1;

    time_range(row, &plot.x_low, &plot.x_high);
    plot.x_low *= 0.98;
    plot.x_high *= 1.02;
    cJSON_ArrayForEach(candidate, candidates(row))
    {
        double time = time_of(candidate);
        int bin = (int)(BINS * place(time, plot.x_low, plot.x_high, 0));
        if (time > 0 && bin >= 0 && bin < BINS && ++counts[bin] > most)
            most = counts[bin];
    }
    plot.y_high = most;
    open_plot(&plot, "Points by their time", "ms");
    for (int count = 0; count <= most; count += 1 + most / 6)
        y_tick(&plot, count);
    ticks(&plot, plot.x_low, plot.x_high, x_tick);
    for (int bin = 0; bin < BINS; bin++) {
        double from = plot.x_low + (plot.x_high - plot.x_low) * bin / BINS,
               width = (WIDTH - LEFT - RIGHT) / (double)BINS;
        if (counts[bin] > 0)
            text_print(file, "<rect class=\"bar\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
                       at_x(&plot, from) + 1, at_y(&plot, counts[bin]), width - 2,
                       HEIGHT - BOTTOM - at_y(&plot, counts[bin]));
    }
    mark(&plot, report_number(row, "default_ms"), "default", "default", 0);
    mark(&plot, report_number(row, "time_ms"), "tuned", "tuned", 1);
    close_plot(&plot);
}

void chart_progress(FILE *file, const cJSON *row)
{
    struct plot plot = {.file = file, .x_high = report_number(row, "seconds")};
    const cJSON *candidate;
    double best = 0;

    time_range(row, &plot.y_low, &plot.y_high);
    plot.y_low *= 0.95;
    plot.y_high *= 1.05;
    open_plot(&plot, "Best found over time (ms)", "seconds of the search");
    ticks(&plot, plot.y_low, plot.y_high, y_tick);
    ticks(&plot, 0, plot.x_high, x_tick);
    cJSON_ArrayForEach(candidate, candidates(row)) if (time_of(candidate) > 0)
        text_print(file, "<circle class=\"point\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n",
                   at_x(&plot, report_number(candidate, "at")), at_y(&plot, time_of(candidate)));
    fputs("<path class=\"line tuned\" d=\"", file);
    cJSON_ArrayForEach(candidate, candidates(row))
    {
        double time = time_of(candidate);
        if (time == 0 || (best > 0 && time >= best))
            continue;
        text_print(file, best == 0 ? "M%.1f %.1f" : " H%.1f V%.1f", at_x(&plot, report_number(candidate, "at")),
                   at_y(&plot, time));
        best = time;
    }
    text_print(file, " H%.1f\"/>\n", at_x(&plot, plot.x_high));
    close_plot(&plot);
}

int report_same(const cJSON *a, const cJSON *b)
{
    static const char *const keys[] = {"group", "dtype", "key_dim", "value_dim", "heads"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!cJSON_Compare(cJSON_GetObjectItemCaseSensitive(a, keys[i]), cJSON_GetObjectItemCaseSensitive(b, keys[i]),
                           1))
            return 0;
    return 1;
}

static void lengths_range(const cJSON *first, struct plot *plot)
{
    for (const cJSON *row = first; row != NULL && report_same(first, row); row = row->next) {
        const cJSON *pair;
        cJSON_ArrayForEach(pair, cJSON_GetObjectItemCaseSensitive(row, "lengths"))
        {
            double tokens = report_number(pair, "tokens"), time = report_number(pair, "time_ms");
            if (time <= 0)
                continue;
            plot->x_high = tokens > plot->x_high ? tokens : plot->x_high;
            plot->y_low = plot->y_low == 0 || time < plot->y_low ? time : plot->y_low;
            plot->y_high = time > plot->y_high ? time : plot->y_high;
        }
    }
}

static void length_line(const struct plot *plot, const cJSON *row, int series)
{
    const cJSON *pair;
    int begun = 0;

    fprintf(plot->file, "<path class=\"line series%d\" d=\"", series);
    cJSON_ArrayForEach(pair, cJSON_GetObjectItemCaseSensitive(row, "lengths"))
    {
        if (report_number(pair, "time_ms") <= 0)
            continue;
        text_print(plot->file, "%c%.1f %.1f ", begun ? 'L' : 'M', at_x(plot, report_number(pair, "tokens")),
                   at_y(plot, report_number(pair, "time_ms")));
        begun = 1;
    }
    text_print(plot->file, "\"/><text class=\"series%d\" x=\"%.1f\" y=\"%d\">", series, (double)LEFT + 8,
               TOP + 10 + 14 * series);
    report_text(plot->file, row, "solver");
    fputs("</text>\n", plot->file);
}

void chart_lengths(FILE *file, const cJSON *first)
{
    struct plot plot = {.file = file, .x_low = 1, .x_high = 2, .log_x = 1, .log_y = 1};
    int series = 0;

    lengths_range(first, &plot);
    if (plot.y_high == 0)
        return;
    open_plot(&plot, "Time by length (ms), as tuned", "tokens");
    for (double y = pow(10, ceil(log10(plot.y_low))); y <= plot.y_high; y *= 10)
        y_tick(&plot, y);
    for (double x = 1; x <= plot.x_high; x *= 4)
        x_tick(&plot, x);
    for (const cJSON *row = first; row != NULL && report_same(first, row); row = row->next)
        length_line(&plot, row, series++);
    close_plot(&plot);
}

void chart_share(FILE *file, const char *label, double percent)
{
    double width = percent > 100 ? 100 : percent;

    fprintf(file, "<div class=\"share\"><span>%s</span><svg viewBox=\"0 0 100 6\" preserveAspectRatio=\"none\">",
            label);
    text_print(file,
               "<rect class=\"track\" width=\"100\" height=\"6\"/><rect class=\"fill\" width=\"%.1f\" height=\"6\"/>",
               width);
    text_print(file, "</svg><b>%.1f&#8239;%%</b></div>\n", percent);
}
