// Random trees of calls of Go: recursion, panics that pass over calls and are recovered, also by a traced call itself,
// calls in deferred functions, goroutines that wait for each other and go on in other threads, stacks that grow and
// shrink. Prints what `call_trees.cc` prints, with a goroutine in place of a thread.
// `call_trees SEED TREES`
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const goroutines, deepest, most = 3, 12, 30

type returned struct {
	id, result, inside, around int64
	before                     int
	entered                    int64
}

type own struct { // of one goroutine
	random        uint64
	next, entered int64
	depth, budget int
	tries         int
	returned      []returned
	child         bool
}

var bases, allReturned, allEntered int64
var printing sync.Mutex
var out = bufio.NewWriter(os.Stdout)

func fresh(random uint64, child bool) *own {
	base := atomic.AddInt64(&bases, 1)
	return &own{random: random, next: base*100000000 + 1, budget: most, child: child}
}

func (o *own) chance(of uint64) uint64 {
	o.random = o.random*6364136223846793005 + 1442695040888963407
	return (o.random >> 33) % of
}

func resultOf(id int64) int64 { return int64(uint64(id) * 2654435761 % 1000003) }

func call(o *own) {
	id, begun := o.next, time.Now()
	o.next++
	if o.chance(2) == 0 {
		node(id, o)
	} else {
		other(id, o)
	}
	o.returned[len(o.returned)-1].around = int64(time.Since(begun))
}

func try(o *own) {
	depth, tries := o.depth, o.tries
	defer func() {
		recover()
		o.depth, o.tries = depth, tries
	}()
	o.tries++
	call(o)
}

func deferring(o *own) {
	defer call(o)
	runtime.Gosched()
}

//go:noinline
func grow(left int, o *own) byte {
	var much [2000]byte
	much[left] = byte(left)
	if left == 0 {
		call(o)
		return much[0]
	}
	return grow(left-1, o) + much[left]
}

func act(o *own) {
	switch o.chance(9) {
	case 0, 1:
		call(o)
	case 2, 3:
		try(o)
	case 4:
		if o.tries > 0 && o.chance(3) == 0 {
			panic(1)
		}
	case 5:
		deferring(o)
	case 6:
		grow(int(o.chance(20)), o)
	case 7:
		if o.chance(20) == 0 {
			runtime.GC() // stacks that are too large shrink
		}
		time.Sleep(time.Microsecond)
	case 8:
		if !o.child {
			done := make(chan bool)
			go func() {
				tree(fresh(o.random+1, true), 1)
				done <- true
			}()
			<-done
		}
	}
}

func within(id int64, o *own) returned {
	begun, before := time.Now(), len(o.returned)
	o.entered++
	entered := o.entered
	o.depth++
	for left := o.chance(5); left > 0 && o.depth < deepest && o.budget > 0; left-- {
		o.budget--
		act(o)
	}
	o.depth--
	return returned{id, resultOf(id), int64(time.Since(begun)), 0, before, o.entered - entered}
}

//go:noinline
func node(id int64, o *own) int64 {
	found := within(id, o)
	o.returned = append(o.returned, found)
	switch found.result % 3 { // a return each
	case 0:
		return found.result
	case 1:
		runtime.KeepAlive(o)
		return resultOf(found.id)
	}
	return resultOf(id)
}

// What passes over the calls inside it ends in it, and it returns.
//
//go:noinline
func other(id int64, o *own) (result int64) {
	begun, before, entered, depth, tries := time.Now(), len(o.returned), o.entered+1, o.depth, o.tries
	defer func() {
		if recover() != nil {
			o.depth, o.tries = depth, tries
			result = resultOf(id)
			o.returned = append(o.returned, returned{id, result, int64(time.Since(begun)), 0, before, o.entered - entered})
		}
	}()
	o.tries++
	found := within(id, o)
	o.tries--
	o.returned = append(o.returned, found)
	return found.result
}

func tree(o *own, calls int) {
	for i := 0; i < calls; i++ {
		o.depth, o.tries = 0, 0
		call(o)
	}
	printing.Lock()
	defer printing.Unlock()
	for _, one := range o.returned {
		fmt.Fprintln(out, "own", one.id, one.result, one.inside, one.around, one.before, one.entered, 0)
	}
	allReturned += int64(len(o.returned))
	allEntered += o.entered
}

func main() {
	seed, _ := strconv.ParseUint(os.Args[1], 10, 64)
	trees, _ := strconv.Atoi(os.Args[2])
	runtime.GOMAXPROCS(4)
	var running sync.WaitGroup
	for first := 0; first < goroutines; first++ {
		running.Add(1)
		go func(number int) {
			for ; number < trees; number += goroutines {
				tree(fresh(seed*1000003+uint64(number)*7919+1, false), 6)
			}
			running.Done()
		}(first)
	}
	running.Wait()
	fmt.Fprintln(out, "all", allReturned, allEntered-allReturned)
	out.Flush()
}
