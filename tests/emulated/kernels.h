/* kernels.h: how a file of kernels that take one struct each tells the emulated driver of them. */
#ifndef TESTS_EMULATED_KERNELS_H
#define TESTS_EMULATED_KERNELS_H

#include "support/emulator.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
/* One thread of cu_<name>_<SUFFIX>(type). */
#define LAUNCHED(name, type) \
    static void PASTE(launched_##name, SUFFIX)(void **a) { PASTE(cu_##name, SUFFIX)(*(const type *)a[0]); }
#define LISTED(name) { "cu_" #name "_" TEXT(SUFFIX), PASTE(launched_##name, SUFFIX) },

#endif
