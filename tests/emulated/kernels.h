/* kernels.h: what a file of kernels tells the emulated driver of them with. */
#ifndef TESTS_EMULATED_KERNELS_H
#define TESTS_EMULATED_KERNELS_H

#include "support/emulator.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

#endif
