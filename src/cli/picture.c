#include "cli/picture.h"

#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PANEL = 240,
    GAP = 56,
    TOP = 62,
    SCALE = 96,       /* width of what shows the scale */
    MOST_PANELS = 16, /* of them four side by side */
    ACROSS = 4,
    MOST_PIXELS = 512, /* a side: of larger matrices a pixel stands for some elements */
    LEVELS = 64,       /* of a sign */
    STORED = 65535     /* bytes of a block of zlib's that is not compressed */
};

static const struct {
    int red, green, blue;
} negative = {0xe0, 0x6c, 0x00}, positive = {0x22, 0x7d, 0xe8};

/* ---- PNG in base64 ----------------------------------------------------------------------------------------------- */

/* Bytes on their way: three become four letters. */
struct stream {
    FILE *file;
    uint32_t held, crc, adler_a, adler_b;
    int count;
};

static void put_letters(struct stream *s)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = s->held << 8 * (3 - s->count);

    for (int i = 0; i < 4 && s->count > 0; i++)
        fputc(i <= s->count ? letters[bits >> (18 - 6 * i) & 63] : '=', s->file);
    s->held = 0;
    s->count = 0;
}

static void put_byte(struct stream *s, uint32_t byte)
{
    s->held = s->held << 8 | byte;
    s->crc ^= byte;
    for (int bit = 0; bit < 8; bit++)
        s->crc = s->crc >> 1 ^ (s->crc & 1 ? 0xedb88320u : 0);
    if (++s->count == 3)
        put_letters(s);
}

static void put_word(struct stream *s, uint32_t word)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        put_byte(s, word >> shift & 255);
}

static void begin_chunk(struct stream *s, const char *name, size_t bytes)
{
    put_word(s, (uint32_t)bytes);
    s->crc = 0xffffffffu;
    while (*name != '\0')
        put_byte(s, (unsigned char)*name++);
}

static void end_chunk(struct stream *s)
{
    put_word(s, ~s->crc);
}

static void put_header(struct stream *s, int64_t width, int64_t height)
{
    static const unsigned char signature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

    for (size_t i = 0; i < sizeof signature; i++)
        put_byte(s, signature[i]);
    begin_chunk(s, "IHDR", 13);
    put_word(s, (uint32_t)width);
    put_word(s, (uint32_t)height);
    put_word(s, 0x08030000); /* 8 bits, a palette */
    put_byte(s, 0);
    end_chunk(s);
}

/* Levels from -LEVELS to LEVELS: the sign's colour, and the fuller the larger. */
static void put_palette(struct stream *s)
{
    begin_chunk(s, "PLTE", 3 * (2 * LEVELS + 1));
    for (int level = -LEVELS; level <= LEVELS; level++) {
        put_byte(s, (uint32_t)(level < 0 ? negative.red : positive.red));
        put_byte(s, (uint32_t)(level < 0 ? negative.green : positive.green));
        put_byte(s, (uint32_t)(level < 0 ? negative.blue : positive.blue));
    }
    end_chunk(s);
    begin_chunk(s, "tRNS", 2 * LEVELS + 1);
    for (int level = -LEVELS; level <= LEVELS; level++)
        put_byte(s, (uint32_t)(255 * abs(level) / LEVELS));
    end_chunk(s);
}

/* Of zlib's bytes one that is checked, and a header ahead of each block. */
static void put_pixel(struct stream *s, size_t at, size_t all, uint32_t byte)
{
    size_t left = all - at < STORED ? all - at : STORED;

    if (at % STORED == 0) {
        put_byte(s, all - at <= STORED);
        put_byte(s, left & 255);
        put_byte(s, left >> 8 & 255);
        put_byte(s, ~left & 255);
        put_byte(s, ~left >> 8 & 255);
    }
    put_byte(s, byte);
    s->adler_a = (s->adler_a + byte) % 65521;
    s->adler_b = (s->adler_b + s->adler_a) % 65521;
}

static void put_pixels(struct stream *s, const unsigned char *pixels, int64_t width, int64_t height)
{
    size_t all = (size_t)(height * (width + 1)), at = 0; /* a byte ahead of each row: no filter */

    begin_chunk(s, "IDAT", 6 + all + 5 * ((all + STORED - 1) / STORED));
    put_byte(s, 0x78);
    put_byte(s, 0x01);
    s->adler_a = 1;
    s->adler_b = 0;
    for (int64_t y = 0; y < height; y++) {
        put_pixel(s, at++, all, 0);
        for (int64_t x = 0; x < width; x++)
            put_pixel(s, at++, all, pixels[y * width + x]);
    }
    put_word(s, s->adler_b << 16 | s->adler_a);
    end_chunk(s);
}

static void put_png(FILE *file, const unsigned char *pixels, int64_t width, int64_t height)
{
    struct stream stream = {.file = file};

    put_header(&stream, width, height);
    put_palette(&stream);
    put_pixels(&stream, pixels, width, height);
    begin_chunk(&stream, "IEND", 0);
    end_chunk(&stream);
    put_letters(&stream);
}

/* ---- Matrices ---------------------------------------------------------------------------------------------------- */

/* What is drawn of a picture: how many matrices, and how many elements a pixel has each way. */
struct view {
    const struct picture *picture;
    int64_t panels, pool, width, height; /* pixels */
    double limit;                        /* the largest magnitude */
    int is_signed;
};

static struct view view_of(const struct picture *picture)
{
    int64_t side = picture->rows > picture->columns ? picture->rows : picture->columns;
    struct view view = {.picture = picture,
                        .panels = picture->count < MOST_PANELS ? picture->count : MOST_PANELS,
                        .pool = (side + MOST_PIXELS - 1) / MOST_PIXELS};

    view.width = (picture->columns + view.pool - 1) / view.pool;
    view.height = (picture->rows + view.pool - 1) / view.pool;
    for (int64_t i = 0; i < view.panels * picture->rows * picture->columns; i++) {
        double x = (double)picture->data[i];
        if (!isfinite(x))
            continue;
        view.limit = fmax(view.limit, fabs(x));
        view.is_signed |= x < 0;
    }
    return view;
}

/* Of the elements of a pixel the one of the largest magnitude; 0 where they are not finite. */
static double largest(const struct view *view, const float *matrix, int64_t x, int64_t y)
{
    const struct picture *p = view->picture;
    double most = 0;

    for (int64_t row = y * view->pool; row < (y + 1) * view->pool && row < p->rows; row++)
        for (int64_t column = x * view->pool; column < (x + 1) * view->pool && column < p->columns; column++) {
            double value = (double)matrix[row * p->columns + column];
            most = isfinite(value) && fabs(value) > fabs(most) ? value : most;
        }
    return most;
}

static void make_pixels(const struct view *view, const float *matrix, unsigned char *pixels)
{
    for (int64_t y = 0; y < view->height; y++)
        for (int64_t x = 0; x < view->width; x++) {
            double value = view->limit > 0 ? largest(view, matrix, x, y) / view->limit : 0;
            long level = lround(LEVELS * sqrt(fabs(value)));
            pixels[y * view->width + x] = (unsigned char)(LEVELS + (value < 0 ? -level : level));
        }
}

/* ---- The drawing ------------------------------------------------------------------------------------------------- */

/* As high as rows are many, within what can be read */
static int panel_height(const struct picture *picture)
{
    double height = PANEL * (double)picture->rows / (double)picture->columns;

    return height > 2 * PANEL ? 2 * PANEL : height < 16 ? 16 : (int)height;
}

static void put_ticks(FILE *file, const struct picture *p, int x, int y, int height)
{
    fprintf(file, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">keys</text>", x + PANEL / 2, y - 5);
    fprintf(file, "<text x=\"%d\" y=\"%d\">0</text>", x, y - 5);
    fprintf(file, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%lld</text>\n", x + PANEL, y - 5,
            (long long)p->columns - 1);
    fprintf(file, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">0</text>", x - 5, y + 11);
    if (height < 40)
        return;
    fprintf(file, "<text transform=\"translate(%d %d) rotate(-90)\" text-anchor=\"middle\">queries</text>", x - 8,
            y + height / 2);
    fprintf(file, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%lld</text>\n", x - 5, y + height,
            (long long)p->rows - 1);
}

static void put_panel(FILE *file, const struct view *view, int64_t panel, unsigned char *pixels)
{
    const struct picture *p = view->picture;
    int height = panel_height(p), x = GAP + (int)(panel % ACROSS) * (PANEL + GAP);
    int y = TOP + (int)(panel / ACROSS) * (height + TOP);

    if (p->count > 1)
        fprintf(file, "<text x=\"%d\" y=\"%d\">batch %lld, head %lld</text>\n", x, y - 20,
                (long long)(panel / p->heads), (long long)(panel % p->heads));
    put_ticks(file, p, x, y, height);
    make_pixels(view, p->data + panel * p->rows * p->columns, pixels);
    fprintf(file,
            "<image x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" preserveAspectRatio=\"none\" "
            "style=\"image-rendering:pixelated\" href=\"data:image/png;base64,",
            x, y, PANEL, height);
    put_png(file, pixels, view->width, view->height);
    fprintf(file, "\"/>\n<rect class=\"frame\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", x, y, PANEL, height);
}

static void put_stop(FILE *file, int percent, int is_negative, double opacity)
{
    text_print(file, "<stop offset=\"%d%%\" stop-color=\"#%02x%02x%02x\" stop-opacity=\"%g\"/>", percent,
               is_negative ? negative.red : positive.red, is_negative ? negative.green : positive.green,
               is_negative ? negative.blue : positive.blue, opacity);
}

/* From the largest magnitude down to 0, or to its negative. */
static void put_scale(FILE *file, const struct view *view, int x, int height)
{
    int zero = view->is_signed ? 50 : 100;

    height = height < 120 ? 120 : height;
    fputs("<linearGradient id=\"scale\" x2=\"0\" y2=\"1\">", file);
    put_stop(file, 0, 0, 1);
    put_stop(file, zero, 0, 0);
    put_stop(file, zero, view->is_signed, 0);
    put_stop(file, 100, view->is_signed, view->is_signed);
    fprintf(file,
            "</linearGradient>\n<rect class=\"frame\" style=\"fill:url(#scale)\" x=\"%d\" y=\"%d\" width=\"14\" "
            "height=\"%d\"/>\n",
            x, TOP, height);
    for (int step = 0; step <= 4; step++) {
        double part = view->is_signed ? 1 - step / 2.0 : 1 - step / 4.0, value = view->limit * part * fabs(part);
        text_print(file, "<text x=\"%d\" y=\"%d\">%.3g</text>", x + 20, TOP + 4 + height * step / 4, value);
    }
    fputc('\n', file);
}

static void put_title(FILE *file, const struct view *view)
{
    const struct picture *p = view->picture;

    fprintf(file, "<text class=\"title\" x=\"%d\" y=\"18\">%s", GAP, p->title);
    if (view->panels < p->count)
        fprintf(file, ", the first %lld of %lld heads", (long long)view->panels, (long long)p->count);
    if (view->pool > 1)
        fprintf(file, ", a pixel is the largest of %lld x %lld", (long long)view->pool, (long long)view->pool);
    fputs("</text>\n", file);
}

int picture_write(FILE *file, const void *user)
{
    const struct picture *picture = user;
    const struct view view = view_of(picture);
    int across = view.panels < ACROSS ? (int)view.panels : ACROSS, height = panel_height(picture);
    int down = (int)((view.panels + ACROSS - 1) / ACROSS), scale = GAP + across * (PANEL + GAP) - GAP / 2;
    int below = TOP + (height < 120 && down == 1 ? 120 : down * (height + TOP) - TOP) + 14;
    unsigned char *pixels = malloc((size_t)(view.width * view.height));

    errno = ENOMEM;
    if (pixels == NULL)
        return -1;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" role=\"img\">\n"
            "<title>%s: attention matrix</title>\n",
            scale + SCALE, below, scale + SCALE, picture->title);
    fputs("<style>text{font:12px sans-serif;fill:#57606a}.title{font-size:14px}.frame{fill:none;stroke:#8b949e;"
          "stroke-width:.5}@media(prefers-color-scheme:dark){text{fill:#adbac7}}</style>\n",
          file);
    put_title(file, &view);
    for (int64_t panel = 0; panel < view.panels; panel++)
        put_panel(file, &view, panel, pixels);
    put_scale(file, &view, scale, height);
    free(pixels);
    return fputs("</svg>\n", file) < 0 || ferror(file) ? -1 : 0;
}
