/* lists: hands arrays of strings to `list`, each with its number: of several, of one, of none, of more than are joined, one
 * that is not there, and one that leads to memory that is not mapped. */
#include <stddef.h>

__attribute__((noinline, noclone)) int list(const char *const *strings, int number) {
  __asm__ volatile("" ::"r"(strings) : "memory");
  return number;
}

int main(void) {
  static const char *several[] = {"ls", "-l", "", "/tmp dir", NULL}, *one[] = {"solo", NULL}, *none[] = {NULL};
  static const char *many[40], *wild[] = {"a", (const char *)8, NULL};
  for (int i = 0; i < 39; i++) many[i] = i % 2 ? "x" : "y";
  list(several, 1), list(one, 2), list(none, 3), list(many, 4), list(NULL, 5), list(wild, 6), list(one, 7);
  return 0;
}
