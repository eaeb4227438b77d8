/* room.h: is there room on the stack for one more call of a function inside a function?
 *
 * Programs nest transformed functions, and functions that call each other, as deep as they like; each level takes some
 * of the thread's stack, whose size is theirs to choose. */
#ifndef MX_CORE_ROOM_H
#define MX_CORE_ROOM_H

#include <stdbool.h>

/* 0, or non-zero after mx_fail where the thread's stack is nearly used up; op is for the message. */
int mx_need_room(const char *op);

#endif
