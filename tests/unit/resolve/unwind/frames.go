package main
import ("fmt";"sort")
type S interface{ F(int) int }
type A struct{ x int }
//go:noinline
func mark(x int) int { return x+1 }
func (a A) F(n int) int { if n==0 { return mark(a.x) }; m:=map[int]int{n:n}; defer func(){ mark(len(m)) }(); return a.F(n-1)+m[n] }
func main(){ var s S=A{3}; t:=0; for i:=0;i<20;i++{ t+=s.F(i%9) }; c:=make(chan int); for i:=0;i<4;i++{ go func(i int){ c<-s.F(i) }(i) }; for i:=0;i<4;i++{ t+=<-c }; v:=[]int{3,1,2}; sort.Slice(v,func(i,j int)bool{ return mark(v[i])<mark(v[j]) }); fmt.Println(t) }
