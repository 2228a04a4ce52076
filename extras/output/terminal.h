/* terminal.h - how lines look on a terminal: colours, and no word broken at its edge.
 *
 * A rank has a hue, faults are red, resumption is green, and where a rank runs is dim. The hues are
 * those of the site (docs/colours.css): each is readable on black and on white. */
#ifndef EXTRAS_OUTPUT_TERMINAL_H
#define EXTRAS_OUTPUT_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

bool terminal_is(int fd); // true for a terminal with columns, not dumb; cached for output and error
bool terminal_has_colours(int fd); // true for a terminal, if NO_COLOR is not set
int terminal_columns(int fd); // the present number, since users resize terminals; 80 if unknown

/* Returns the lines of text as a terminal with that many columns shows them; free it with free(). A
 * line that is too long goes on below, indented. Sets *bytes. */
char *terminal_format(const char *text, size_t length, int columns, bool colours, size_t *bytes);

/* Around a line: remove the progress bar, even one that another rank has drawn on the terminal, and
 * draw our own below the line. Other threads' lines and bars wait in between (watch/progress.c). */
void progress_bar_erase(void);
void progress_bar_redraw(void);

/* ---- a message that several ranks have is shown once ---- */

/* The launcher reports which ranks have the same message, so a rank need not repeat it: it checks
 * in this folder whether another rank has printed the message. */
#define TERMINAL_SAID "DDPRUN_SAID" // the environment variable
#define TERMINAL_SAID_FILE "said."

#endif
