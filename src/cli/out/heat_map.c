#include "cli/out/heat_map.h"

#include "base/text.h"

#include <math.h>

enum {
    MAX_CELLS = 128, /* of a side: in larger matrices a cell stands for several elements */
    LEVELS = 16,     /* of opacity, for each sign */
    MAX_PANELS = 16,
    PANELS_PER_ROW = 4,
    PANEL = 240, /* width in pixels */
    MARGIN = 40
};

/* What is drawn: matrices of [rows, columns] cells, each of pool x pool elements. */
struct grid {
    const struct heat_map *map;
    int64_t panels, pool, rows, columns;
    double limit; /* the largest finite magnitude of an element */
};

static struct grid make_grid(const struct heat_map *map)
{
    int64_t side = map->rows > map->columns ? map->rows : map->columns;
    struct grid grid = {.map = map,
                        .panels = map->count < MAX_PANELS ? map->count : MAX_PANELS,
                        .pool = (side + MAX_CELLS - 1) / MAX_CELLS};

    grid.rows = (map->rows + grid.pool - 1) / grid.pool;
    grid.columns = (map->columns + grid.pool - 1) / grid.pool;
    for (int64_t i = 0; i < grid.panels * map->rows * map->columns; i++)
        if (isfinite(map->data[i]))
            grid.limit = fmax(grid.limit, fabs((double)map->data[i]));
    return grid;
}

/* The element of the largest magnitude in a cell; 0 if none is finite. */
static double cell_value(const struct grid *grid, const float *matrix, int64_t row, int64_t column)
{
    const struct heat_map *map = grid->map;
    double largest = 0;

    for (int64_t y = row * grid->pool; y < (row + 1) * grid->pool && y < map->rows; y++)
        for (int64_t x = column * grid->pool; x < (column + 1) * grid->pool && x < map->columns; x++) {
            double value = (double)matrix[y * map->columns + x];
            largest = isfinite(value) && fabs(value) > fabs(largest) ? value : largest;
        }
    return largest;
}

/* The levels of a matrix's cells, from -LEVELS to LEVELS. */
static void find_levels(const struct grid *grid, const float *matrix, signed char *levels)
{
    for (int64_t i = 0; i < grid->rows * grid->columns; i++) {
        double value =
            grid->limit > 0 ? cell_value(grid, matrix, i / grid->columns, i % grid->columns) / grid->limit : 0;
        int level = (int)lround(LEVELS * sqrt(fabs(value)));
        levels[i] = (signed char)(value < 0 ? -level : level);
    }
}

/* All cells of one level as one path; neighbours in a row are one rectangle. */
static void draw_level(FILE *file, const struct grid *grid, const signed char *levels, int level)
{
    text_print(file, "<path fill=\"%s\" fill-opacity=\"%.2f\" d=\"", level < 0 ? "#e06c00" : "#227de8",
               fabs((double)level) / LEVELS);
    for (int64_t row = 0; row < grid->rows; row++)
        for (int64_t column = 0, first; column < grid->columns; column++) {
            for (first = column; column < grid->columns && levels[row * grid->columns + column] == level; column++)
                continue;
            if (column > first)
                fprintf(file, "M%lld %lldh%lldv1h-%lldz", (long long)first, (long long)row, (long long)(column - first),
                        (long long)(column - first));
        }
    fputs("\"/>\n", file);
}

/* In proportion to the rows, within what can be read. */
static int panel_height(const struct heat_map *map)
{
    double height = PANEL * (double)map->rows / (double)map->columns;

    return height > 2 * PANEL ? 2 * PANEL : height < 16 ? 16 : (int)height;
}

static void draw_panel(FILE *file, const struct grid *grid, int64_t panel)
{
    const struct heat_map *map = grid->map;
    int height = panel_height(map), x = MARGIN / 2 + (int)(panel % PANELS_PER_ROW) * (PANEL + MARGIN);
    int y = 2 * MARGIN + (int)(panel / PANELS_PER_ROW) * (height + MARGIN);
    signed char levels[MAX_CELLS * MAX_CELLS];

    find_levels(grid, map->data + panel * map->rows * map->columns, levels);
    fprintf(file, "<text x=\"%d\" y=\"%d\">batch %lld, head %lld</text>\n", x, y - 6, (long long)(panel / map->heads),
            (long long)(panel % map->heads));
    fprintf(file,
            "<svg x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %lld %lld\" preserveAspectRatio=\"none\" "
            "shape-rendering=\"crispEdges\">\n",
            x, y, PANEL, height, (long long)grid->columns, (long long)grid->rows);
    for (int level = -LEVELS; level <= LEVELS; level++)
        if (level != 0)
            draw_level(file, grid, levels, level);
    fprintf(file, "</svg>\n<rect class=\"frame\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", x, y, PANEL,
            height);
}

int heat_map_write(FILE *file, const void *heat_map)
{
    const struct heat_map *map = heat_map;
    const struct grid grid = make_grid(map);
    int across = grid.panels < PANELS_PER_ROW ? (int)grid.panels : PANELS_PER_ROW;
    int down = (int)((grid.panels + PANELS_PER_ROW - 1) / PANELS_PER_ROW), width = across * (PANEL + MARGIN);

    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" role=\"img\">\n"
            "<title>%s: attention matrix</title>\n",
            width, 2 * MARGIN + down * (panel_height(map) + MARGIN), map->title);
    fputs("<style>text{font:12px sans-serif;fill:#57606a}.frame{fill:none;stroke:#8b949e;stroke-width:.5}"
          "@media(prefers-color-scheme:dark){text{fill:#adbac7}}</style>\n",
          file);
    fprintf(file, "<text x=\"%d\" y=\"16\">%s</text>\n", MARGIN / 2, map->title);
    fprintf(file, "<text x=\"%d\" y=\"32\">%lld queries down, %lld keys across</text>\n", MARGIN / 2,
            (long long)map->rows, (long long)map->columns);
    text_print(file, "<text x=\"%d\" y=\"48\">blue to %.3g, orange below 0, by the root</text>\n", MARGIN / 2,
               grid.limit);
    for (int64_t panel = 0; panel < grid.panels; panel++)
        draw_panel(file, &grid, panel);
    return fputs("</svg>\n", file) < 0 || ferror(file) ? -1 : 0;
}
