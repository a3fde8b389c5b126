#include <stdexcept>
#include <vector>
#include <thread>
#include <signal.h>
#include <string>
#include <cstdlib>
#include <cstdio>
#include <unistd.h>
#include <setjmp.h>
volatile long sink;
extern "C" __attribute__((noinline)) void mark(long x){ sink+=x; asm volatile("":::"memory"); }
struct B{ virtual long f(long n)=0; virtual ~B(){} };
template<int N> struct D:B{ long f(long n) override { std::vector<long> v(N+n%7); char buf[N*16+16]; for(size_t i=0;i<sizeof buf;i++)buf[i]=n+i; if(n<=0){ mark(n+buf[3]); return 1;} if(n==3) throw std::runtime_error("x"+std::to_string(n)); D<(N*3+1)%13> d; long r=d.f(n-1); mark(r+v.size()); return r+buf[n%16]; } };
__attribute__((noinline)) long go(long n){ D<5> d; try { return d.f(n);} catch(std::exception&e){ mark(7); return 2; } }
static char alt[65536];
void handler(int s){ mark(s); go(2); }
__attribute__((noinline,target("avx2"))) long aligned(long n){ alignas(64) long a[32]; for(int i=0;i<32;i++)a[i]=n*i; mark(a[n%32]); asm volatile(""::"r"(a):"memory"); return a[3]+ (n?aligned(n-1):0); }
__attribute__((noinline)) long dyn(long n){ char*p=(char*)alloca(n*16+64); alignas(32) long q[8]; p[0]=n; asm volatile(""::"r"(p),"r"(q):"memory"); mark(n); return p[0]+(n?dyn(n-1):0)+q[0]*0; }
int cmp(const void*a,const void*b){ mark(1); return *(int*)a-*(int*)b; }
int main(){ stack_t ss={}; ss.ss_sp=alt; ss.ss_size=sizeof alt; 
 struct sigaction sa={}; sa.sa_handler=handler; sigaction(SIGUSR1,&sa,0); 
 std::thread t1([]{ for(int i=0;i<5;i++) go(i); }); t1.join();
 for(int i=0;i<6;i++) go(i); aligned(4); dyn(5); raise(SIGUSR1); kill(getpid(),SIGUSR1);
 int v[8]={5,3,1,4,2,8,7,6}; qsort(v,8,4,cmp);
 sigaltstack(&ss,0); sa.sa_flags=SA_ONSTACK; sigaction(SIGUSR2,&sa,0); raise(SIGUSR2);
 printf("%ld\n",sink); }
