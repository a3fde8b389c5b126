/* A library whose answer is in the first instruction of its function. */
int answer(void);
int answer(void) { return ANSWER; }
