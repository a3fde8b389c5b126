// Calls of goroutines that change threads, on stacks that grow, and of functions that panic.
package main

import (
	"runtime"
	"sync"
)

//go:noinline
func fib(n int) int {
	if n < 2 {
		return n
	}
	runtime.Gosched()
	return fib(n-1) + fib(n-2)
}

//go:noinline
func grow(n int) int {
	var a [512]byte
	a[n%512] = 1
	if n == 0 {
		return int(a[0]) - 1
	}
	return grow(n-1) + int(a[n%512])
}

//go:noinline
func risky(n int) int {
	if n == 0 {
		panic("now")
	}
	return risky(n-1) + 1
}

//go:noinline
func safe(n int) (r int) {
	defer func() {
		if recover() != nil {
			r = n * 10
		}
	}()
	return risky(n)
}

func main() {
	var all sync.WaitGroup
	for i := 0; i < 8; i++ {
		all.Add(1)
		go func() { defer all.Done(); fib(8); grow(300) }()
	}
	all.Wait()
	for i := 0; i < 4; i++ {
		safe(i)
	}
}
