/* print.h: arrays as text. */
#ifndef MX_CORE_PRINT_H
#define MX_CORE_PRINT_H

#include "core/array.h"

/* "array([1, 2], dtype=int32)" of an array that is READY on the host, to be freed by the caller;
 * NULL after mx_fail.  precision: digits after the point, or -1 for six significant ones. */
char *array_text(mx x, int precision);
/* v with so many decimals, or of six significant digits where that is -1, in the C locale whatever the program's. */
void number_text(char *out, size_t size, int decimals, double v);

#endif
