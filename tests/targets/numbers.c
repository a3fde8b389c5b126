/* numbers: USDT arguments of every size and sign, and floating-point ones. It says itself what went through its probes:
 *   arg N SUM MIN MAX BELOW   of the arguments of `each`, BELOW being how many were below 0
 *   mixed SUM MIN MAX BELOW   of `mixed`, whose two sites have one of each sign
 *   real DOUBLE FLOAT         of each hit of `real`, and of `still`, whose sites have globals, a constant and a local
 */
#include <inttypes.h>
#include <stdio.h>
#include <sys/sdt.h>

#define NOINLINE __attribute__((noinline, noclone))

struct total {
  int is_signed;
  uint64_t sum, least, most, below;
  int any;
};
static struct total totals[9];

static void add(int index, int is_signed, uint64_t value) {
  struct total *t = &totals[index];
  int less = is_signed ? (int64_t)value < (int64_t)t->least : value < t->least;
  int more = is_signed ? (int64_t)value > (int64_t)t->most : value > t->most;
  if (!t->any || less) t->least = value;
  if (!t->any || more) t->most = value;
  t->any = 1, t->is_signed = is_signed;
  t->sum += value;
  t->below += is_signed && (int64_t)value < 0;
}

static void say(const char *name, const struct total *t) {
  if (t->is_signed)
    printf("%s %" PRId64 " %" PRId64 " %" PRId64 " %" PRIu64 "\n", name, (int64_t)t->sum, (int64_t)t->least,
           (int64_t)t->most, t->below);
  else
    printf("%s %" PRIu64 " %" PRIu64 " %" PRIu64 " 0\n", name, t->sum, t->least, t->most);
}

static NOINLINE void each(uint64_t n) {
  int8_t s8 = (int8_t)n;
  uint8_t u8 = (uint8_t)n;
  int16_t s16 = (int16_t)n;
  uint16_t u16 = (uint16_t)n;
  int32_t s32 = (int32_t)n;
  uint32_t u32 = (uint32_t)n;
  int64_t s64 = (int64_t)n;
  DTRACE_PROBE8(numbers, each, s8, u8, s16, u16, s32, u32, s64, n);
  add(0, 1, (uint64_t)(int64_t)s8), add(1, 0, u8), add(2, 1, (uint64_t)(int64_t)s16), add(3, 0, u16);
  add(4, 1, (uint64_t)(int64_t)s32), add(5, 0, u32), add(6, 1, n), add(7, 0, n);
}

static NOINLINE void mixed(uint64_t n) {
  if (n & 1) {
    DTRACE_PROBE1(numbers, mixed, (int32_t)n);
    add(8, 1, (uint64_t)(int64_t)(int32_t)n);
  } else {
    DTRACE_PROBE1(numbers, mixed, (uint32_t)n);
    add(8, 1, (uint32_t)n);
  }
}

static NOINLINE void real(double wide, float narrow) {
  DTRACE_PROBE3(numbers, real, wide, narrow, 7);
  printf("real %.17g %.9g\n", wide, narrow);
}

volatile double wide_global = -2.5e-300;
float narrow_global = 16777216.5f;

int main(void) {
  static const uint64_t odd[] = {0, 1, 127, 128, 255, 256, 32767, 32768, 65535, 0x7fffffff, 0x80000000, 0xffffffff,
                                 INT64_MAX, (uint64_t)INT64_MIN, UINT64_MAX, UINT64_MAX - 4, UINT64_MAX - 1000};
  for (unsigned i = 0; i < sizeof odd / sizeof *odd; i++) each(odd[i]), mixed(odd[i]);
  for (uint64_t i = 1, n = 1; i < 40; i++, n *= 0x9E3779B97F4A7C15u) each(n), mixed(n >> 5);
  static const double reals[] = {0, -0.0, 0.1, 1.0 / 3, 1e300, 5e-324, 123456789.125, -1};
  for (unsigned i = 0; i < sizeof reals / sizeof *reals; i++) real(reals[i], (float)reals[i]);
  real(__builtin_nan(""), __builtin_nanf(""));
  real(__builtin_inf(), -__builtin_inff());
  DTRACE_PROBE2(numbers, still, wide_global, narrow_global);
  printf("still %.17g %.9g\n", wide_global, narrow_global);
  volatile float local = 0.1f; /* a constant would be at a label that no symbol table has */
  DTRACE_PROBE2(numbers, still, 3.5, local);
  printf("still %.17g %.9g\n", 3.5, local);
  for (int i = 0; i < 8; i++) {
    char name[8];
    snprintf(name, sizeof name, "arg%d", i);
    say(name, &totals[i]);
  }
  say("mixed", &totals[8]);
  return 0;
}
