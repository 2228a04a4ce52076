/* terminal.h - how lines look on a terminal: colours, and no word broken at its edge.
 *
 * A rank has a hue, faults are red, resumption is green, and where a rank runs is dim. The hues are
 * those of the site (docs/colours.css): each is readable on black and on white. */
#ifndef EXTRAS_WATCH_TERMINAL_H
#define EXTRAS_WATCH_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

bool terminal_is(int fd); // is it one with columns, not dumb? Cached for output and error
bool terminal_has_colours(int fd); // is it one, and NO_COLOR is not set?
int terminal_columns(int fd); // now, since its user may change that; 80 if it does not say

/* The lines of text as a terminal of so many columns shows them; free it with free(). A line that
 * is too long goes on below, indented. Sets *bytes. */
char *terminal_dress(const char *text, size_t length, int columns, bool colours, size_t *bytes);

/* ---- a message that several ranks have is shown once ---- */

/* The launcher prints who says the same, so a rank need not repeat it: it looks in this folder
 * whether another rank has printed the message. */
#define TERMINAL_SAID "DDPRUN_SAID" // the variable
#define TERMINAL_SAID_FILE "said."

#endif
