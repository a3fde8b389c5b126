// A function whose parameters take all of Go's registers, and then the stack.
package main

import "fmt"

type shape interface{ Area() int }

type Sq struct {
	W, H int32
	Name string
}

func (s *Sq) Area() int { return int(s.W) }

//go:noinline
func takes(name string, xs []int64, n int32, sq *Sq, sh shape, f float64, by Sq) int {
	return len(name) + int(name[0]) + int(xs[1]) + int(n) + int(sq.W) + sh.Area() + int(f) + int(by.H) + len(by.Name)
}

func main() {
	sq := &Sq{3, 4, "square"}
	total := 0
	for i := 0; i < 100; i++ {
		total += takes("hello go", []int64{1, 2, 3}, int32(-i), sq, sq, 2.5, Sq{7, 8, "val"})
	}
	fmt.Println(total)
}
