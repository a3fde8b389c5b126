/* A library: `call` calls a function. */
__attribute__((noinline, noclone)) void call(long (*function)(long), long argument) {
  function(argument);
  __asm__ volatile("" ::: "memory");
}
