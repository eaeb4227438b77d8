/* effort.h: how often a test repeats itself with other values.
 *
 * The thread sanitizer, under which all takes ten times as long and more, looks at who touches what when, whatever
 * the values are: there a few times are enough. */
#ifndef MX_TESTS_EFFORT_H
#define MX_TESTS_EFFORT_H

static inline int times(int n)
{
#ifdef __SANITIZE_THREAD__
    return (n + 19) / 20;
#else
    return n;
#endif
}

#endif
