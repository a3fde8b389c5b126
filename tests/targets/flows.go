// Random trees of calls in goroutines that change threads, on stacks that grow, with panics. Prints the tree of each as
// `tracer flow` does, but for the times, behind the number of the tree. `flows SEED`.
package main

import (
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

type node struct {
	call, end string
	inside    []*node
}

type tree struct {
	random *rand.Rand
	top    node
	open   []*node
	budget int
}

//go:noinline
func (t *tree) begin(name string, n int) {
	around := &t.top
	if len(t.open) > 0 {
		around = t.open[len(t.open)-1]
	}
	now := &node{call: fmt.Sprintf("main.%s(t=%p, n=%d)", name, t, n)}
	around.inside = append(around.inside, now)
	t.open = append(t.open, now)
	t.budget--
}

//go:noinline
func (t *tree) end(result int) int {
	t.open[len(t.open)-1].end = fmt.Sprintf("= %#x", uint64(result))
	t.open = t.open[:len(t.open)-1]
	return result
}

//go:noinline
func (t *tree) left(depth int) {
	for ; len(t.open) > depth; t.open = t.open[:len(t.open)-1] {
		t.open[len(t.open)-1].end = "no return seen"
	}
}

//go:noinline
func act(t *tree, n int) int {
	if t.budget <= 0 || len(t.open) > 20 {
		return n
	}
	switch t.random.Intn(9) {
	case 0:
		return f_deep(t, 40)
	case 1:
		return f_safe(t, n+1)
	case 2:
		runtime.Gosched()
		return f_pair(t, n+2)
	case 3, 4:
		return f_pair(t, n+1)
	case 5:
		return f_root(t, n+1)
	}
	return n - 5
}

//go:noinline
func f_root(t *tree, n int) int {
	t.begin("f_root", n)
	return t.end(act(t, n) + act(t, n))
}

//go:noinline
func f_pair(t *tree, n int) int {
	t.begin("f_pair", n)
	return t.end(act(t, n) - act(t, -n))
}

//go:noinline
func f_deep(t *tree, n int) int {
	var room [700]byte
	t.begin("f_deep", n)
	room[n] = 1
	if n == 0 {
		return t.end(act(t, 1))
	}
	return t.end(f_deep(t, n-1) + int(room[n]))
}

//go:noinline
func f_risky(t *tree, n int) int {
	t.begin("f_risky", n)
	if act(t, n); n%3 == 0 {
		panic("now")
	}
	return t.end(f_risky(t, n+1) + 1)
}

//go:noinline
func f_safe(t *tree, n int) (result int) {
	t.begin("f_safe", n)
	depth := len(t.open)
	defer func() {
		if recover() != nil {
			t.left(depth)
			result = t.end(n * 10)
		}
	}()
	return t.end(f_risky(t, n))
}

func (n *node) show(text *strings.Builder, number, depth int) {
	indent := strings.Repeat("  ", depth)
	if len(n.inside) == 0 {
		fmt.Fprintf(text, "own %d  %s%s %s\n", number, indent, n.call, n.end)
		return
	}
	fmt.Fprintf(text, "own %d  %s%s {\n", number, indent, n.call)
	for _, one := range n.inside {
		one.show(text, number, depth+1)
	}
	fmt.Fprintf(text, "own %d  %s} %s\n", number, indent, n.end)
}

func main() {
	seed, _ := strconv.Atoi(os.Args[1])
	trees := make([]*tree, 4)
	var all sync.WaitGroup
	for i := range trees {
		trees[i] = &tree{random: rand.New(rand.NewSource(int64(seed*100 + i)))}
		all.Add(1)
		go func(t *tree) {
			defer all.Done()
			for n := 0; n < 5; n++ {
				t.budget = 40
				f_root(t, n)
			}
		}(trees[i])
	}
	all.Wait()
	var text strings.Builder
	for i, t := range trees {
		for _, one := range t.top.inside {
			one.show(&text, i, 0)
		}
	}
	fmt.Print(text.String())
}
