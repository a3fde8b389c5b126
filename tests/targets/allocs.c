/* allocs N: calls malloc(4099) N times; nothing else in the process asks for that size. */
#include <stdlib.h>

int main(int argc, char **argv) {
  long count = argc > 1 ? atol(argv[1]) : 1000;
  for (long i = 0; i < count; i++) {
    void *volatile block = malloc(4099);
    free(block);
  }
  return 0;
}
