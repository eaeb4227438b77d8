/* A library of something else. */
__attribute__((visibility("default"))) int answer(void);
int answer(void) { return 42; }
