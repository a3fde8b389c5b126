enum state { OPEN = 1, PAID, SENT = 7 };
struct item { int32_t sku; uint8_t grams[4]; char name[12]; struct item *next; };
struct point { int16_t x; int16_t y; };
struct order {
  int32_t id; int16_t delta; uint16_t port; char code[8];
  uint32_t urgent : 1, zone : 3, lane : 12;
  enum state state;
  union { uint32_t word; uint8_t part[4]; } tag;
  int32_t lines[4];
  struct item *first; const char *note; struct point at[2];
  uint64_t total; bool gift;
};
