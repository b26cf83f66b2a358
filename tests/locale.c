/* Linked into every test program, and into the command clattn_in_locale: sets the locale CLATTN_TEST_LOCALE before main, as
 * a program does that embeds the library, and ends the process where 1.5 is still printed with a point there. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __GNUC__
__attribute__((constructor)) static void set_locale(void)
{
    const char *name = getenv("CLATTN_TEST_LOCALE");
    char text[16];

    if (name == NULL)
        return;
    if (setlocale(LC_ALL, name) == NULL) {
        fprintf(stderr, "CLATTN_TEST_LOCALE=%s: LOCPATH has no such locale\n", name);
        exit(1);
    }
    setlocale(LC_MESSAGES, "C"); /* tests know what strerror says in English */
    snprintf(text, sizeof text, "%.1f", 1.5);
    if (strcmp(text, "1.5") == 0) {
        fprintf(stderr, "CLATTN_TEST_LOCALE=%s: 1.5 is printed with a point there\n", name);
        exit(1);
    }
}
#endif
