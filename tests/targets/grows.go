// ROUNDS FILE: counts its own calls, while its stacks grow, into the file.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
)

const goroutines, depth = 20, 100

var calls [6]int64
var arguments int64

type Cart struct{ items []int }

type pair struct {
	A int
	B string
}

//go:noinline
func (c *Cart) Add(item int, name string) int {
	atomic.AddInt64(&calls[3], 1)
	c.items = append(c.items, item)
	return len(c.items) + len(name)
}

//go:noinline
func small(left int, number int, name string) int {
	atomic.AddInt64(&calls[0], 1)
	atomic.AddInt64(&arguments, int64(number+len(name)))
	var room [40]byte
	room[left%40] = byte(number)
	if left == 0 {
		return int(room[3])
	}
	return small(left-1, number+1, name) + int(room[left%40])
}

//go:noinline
func large(left int, number int) int {
	atomic.AddInt64(&calls[1], 1)
	var room [1000]byte
	room[left%1000] = byte(number)
	if left == 0 {
		return int(room[3])
	}
	return large(left-1, number+1) + int(room[left%1000])
}

//go:noinline
func huge(left int, number int) int {
	atomic.AddInt64(&calls[2], 1)
	var room [10000]byte
	room[left%10000] = byte(number)
	if left == 0 {
		return int(room[3])
	}
	return huge(left-1, number+1) + int(room[left%10000])
}

//go:noinline
func both[A any, B any](a A, b B) string {
	atomic.AddInt64(&calls[4], 1)
	return fmt.Sprint(a, b)
}

//go:noinline
func leaf(number int) int { return number + 1 }

func main() {
	rounds, _ := strconv.Atoi(os.Args[1])
	var all sync.WaitGroup
	for i := 0; i < goroutines; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for round := 0; round < rounds; round++ {
				small(depth-1, 7, "four")
				large(depth-1, 1)
				huge(depth/10-1, 1)
				runtime.Gosched()
			}
			atomic.AddInt64(&calls[5], 1)
		}()
	}
	all.Wait()
	for runtime.NumGoroutine() > 1 {
		runtime.Gosched() // done is told before the return that is counted
	}
	cart := &Cart{}
	for i := 0; i < 50; i++ {
		cart.Add(leaf(i), "pear")
	}
	both(pair{1, "x"}, map[string]int{"y": 2})
	own := fmt.Sprintln(calls[0], calls[1], calls[2], calls[3], calls[4], calls[5], arguments)
	os.WriteFile(os.Args[2], []byte(own), 0644)
}
