// Calls that Go's compiler changes only if a profile says that they are hot: one of a function that is too large to be
// inlined otherwise, one of a method by way of an interface, one of a generic function. They run for so many
// milliseconds as the argument says.
package main

import (
	"os"
	"strconv"
	"time"
)

type shape interface{ area(n uint64) uint64 }

type square struct{ side uint64 }

type circle struct{ radius uint64 }

func (s square) area(n uint64) uint64 {
	sum := s.side
	for i := uint64(0); i < 64; i++ {
		sum = sum*31 + n ^ i
	}
	return sum
}

func (c circle) area(n uint64) uint64 { return c.radius * n }

// More than the 80 nodes that are inlined of any function.
func mix(a, b, c uint64) uint64 {
	a -= b
	a ^= c>>13 + 7
	b -= c
	b ^= a<<8 + 9
	c -= a
	c ^= b>>13 + 11
	a -= b
	a ^= c>>12 + 13
	b -= c
	b ^= a<<16 + 17
	c -= a
	c ^= b>>5 + 19
	a -= b
	a ^= c>>3 + 23
	b -= c
	b ^= a<<10 + 29
	c -= a
	c ^= b>>15 + 31
	a -= b * 3
	a ^= c>>7 + 37
	b -= c * 5
	b ^= a<<9 + 41
	c -= a * 7
	c ^= b>>11 + 43
	return a ^ b ^ c
}

//go:noinline
func reduce[T uint64 | int64](values []T) T {
	var sum T
	for _, value := range values {
		sum = sum*31 + value
	}
	return sum
}

//go:noinline
func work(of shape, values []uint64) uint64 {
	sum := uint64(1)
	for i := uint64(0); i < 1000; i++ {
		sum += mix(sum, i, 3)
		sum += mix(sum, i, 5)
		sum += mix(sum, i, 7)
		sum += mix(sum, i, 9)
		if i%8 == 0 {
			sum += of.area(i)
		}
	}
	return sum + reduce(values)
}

func main() {
	milliseconds, _ := strconv.Atoi(os.Args[1])
	end := time.Now().Add(time.Duration(milliseconds) * time.Millisecond)
	shapes := []shape{square{3}, circle{2}}
	sum := uint64(len(os.Args))
	for time.Now().Before(end) {
		sum += work(shapes[len(os.Args)-2], make([]uint64, 64))
	}
	println(sum)
}
