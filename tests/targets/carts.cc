// Functions of C++ with all that may stand in a name; how often each is called is written in tests/live/test_names.py.
#define OWN __attribute__((noinline, noipa))

namespace {
OWN int hidden(int x) { return x + 1; }
}

template <class T> struct Cart {
    T sum = 0;
    OWN void add(T x) { sum += x; }
    OWN int print() const { return (int)sum; }
    OWN T operator[](int) { return sum; }
};

template <class T> OWN void twice(T) { asm volatile(""); }

OWN int operator""_kg(unsigned long long n) { return (int)n; }

struct __attribute__((abi_tag("v2"))) Tagged {
    int x;
};

OWN Tagged cut(const char *text) { return {text[0]}; }

OWN int run(int n)
{
    Cart<int> numbers;
    Cart<long> wide;
    Cart<unsigned char> bytes;
    auto step = [&](int x) OWN { return x + n; };
    for (int i = 0; i < 100; i++)
        numbers.add(i);
    for (int i = 0; i < 11; i++) {
        n += 3_kg;
        if (i < 10)
            n += cut("x").x;
        if (i < 9)
            n += numbers[i];
        if (i < 8)
            n += step(i);
        if (i < 7)
            n += numbers.print();
        if (i < 6)
            n += hidden(i);
        if (i < 5)
            bytes.add(i);
        if (i < 4)
            twice<int>(i);
        if (i < 3)
            wide.add(i);
        if (i < 2)
            twice<char>(i);
    }
    return n;
}

int main(int argc, char **) { return run(argc) == 12345; }
